%% The workloads of bench-actors on Erlang/OTP, each written as an Erlang programmer would: processes
%% with unbounded mailboxes, selective receive, gen_server-like calls, ets with the best of its
%% options. `bench:main([Workload, Schedulers | Numbers])` prints one figure, in the same unit as
%% the program of this repository does, or `none`.
-module(bench).
-export([main/1]).

main([Name, Schedulers | Numbers]) ->
    erlang:process_flag(priority, normal),
    N = [list_to_integer(Number) || Number <- Numbers],
    Result =
        try
            run(list_to_atom(Name), list_to_integer(Schedulers), N)
        catch
            Class:Reason:Stack ->
                io:format(standard_error, "~p~n", [{Class, Reason, Stack}]),
                halt(1)
        end,
    case Result of
        none -> io:format("none~n");
        Figure -> io:format("~w~n", [float(Figure)])
    end,
    halt(0).

micros(Fun) ->
    Began = erlang:monotonic_time(nanosecond),
    Fun(),
    (erlang:monotonic_time(nanosecond) - Began) / 1000.

wait(0) -> ok;
wait(N) -> receive done -> wait(N - 1) end.

times(0, _) -> ok;
times(N, Fun) -> Fun(), times(N - 1, Fun).

run(bang, _, [Senders, Messages]) ->
    micros(fun() ->
        Me = self(),
        Receiver = spawn(fun() -> count(Senders * Messages), Me ! done end),
        [spawn(fun() -> times(Messages, fun() -> Receiver ! {item} end) end)
         || _ <- lists:seq(1, Senders)],
        wait(1)
    end);
run(big, _, [N]) ->
    micros(fun() -> everyone(N, fun(Me, Others) -> big(Me, Others, length(Others)) end) end);
run(timer_wheel, _, [N, Timers]) ->
    After = case Timers of 0 -> infinity; _ -> 1000000 end,
    micros(fun() -> everyone(N, fun(Me, Others) ->
        [Other ! {ping, Me} || Other <- Others],
        wheel(Me, 2 * length(Others), After)
    end) end);
run(ehb, _, [Groups, Loops]) ->
    micros(fun() ->
        Me = self(),
        [spawn(fun() -> ehb_group(Me, Loops) end) || _ <- lists:seq(1, Groups)],
        wait(Groups * 20)
    end);
run(genstress, _, [Clients, Junk, Calls]) ->
    Me = self(),
    Server = spawn(fun server/0),
    All = [spawn(fun() ->
        times(Junk, fun() -> self() ! junk end),
        receive go -> ok end,
        calls(Server, Calls),
        Me ! done
    end) || _ <- lists:seq(1, Clients)],
    timer:sleep(100),
    micros(fun() -> [Client ! go || Client <- All], wait(Clients) end);
run(serialmsg, _, [Pairs, Messages, Bytes]) ->
    micros(fun() ->
        Me = self(),
        Dispatcher = spawn(fun dispatch/0),
        Body = binary:copy(<<"x">>, Bytes),
        [begin
            Receiver = spawn(fun() -> count(Messages), Me ! done end),
            spawn(fun() -> times(Messages, fun() -> Dispatcher ! {Receiver, Body} end) end)
         end || _ <- lists:seq(1, Pairs)],
        wait(Pairs)
    end);
run(mbrot, _, [Workers, Side]) ->
    each(Workers, fun(Number) ->
        lists:sum([row(Row, Side, 0, 0) || Row <- lists:seq(Number, Side - 1, Workers)])
    end);
run(parallel, _, [Actors, Stamps]) ->
    each(Actors, fun(_) -> stamps(Stamps, []) end);
run(ran, _, [Actors, Numbers]) ->
    each(Actors, fun(Number) ->
        Seed = rand:seed_s(exsss, Number),
        {List, _} = lists:mapfoldl(fun(_, S) -> rand:uniform_s(1 bsl 58, S) end, Seed,
                                   lists:seq(1, Numbers)),
        lists:sort(List)
    end);
run(orbit, _, [Set, Size, Workers]) ->
    micros(fun() -> orbit:par(integer_to_list(Set), Size, Workers) end);
run(timers, _, [Actors, Timers]) ->
    Micros = each(Actors, fun(_) -> timers(Timers) end),
    Actors * Timers / Micros * 1.0e6;
run(cross, _, [Pairs, Messages, Window]) ->
    Me = self(),
    Players = [begin
        Other = spawn(fun() -> receive {partner, P} -> return(P) end end),
        One = spawn(fun() ->
            receive go -> ok end,
            times(Window, fun() -> Other ! ball end),
            rally(Other, Messages),
            Me ! done
        end),
        Other ! {partner, One},
        One
    end || _ <- lists:seq(1, Pairs)],
    Micros = micros(fun() -> [One ! go || One <- Players], wait(Pairs) end),
    2 * Pairs * Messages / Micros * 1.0e6;
run(memory, _, [Actors]) ->
    Me = self(),
    All = [spawn(fun() -> idle(Me, {0, 0}) end) || _ <- lists:seq(1, Actors)],
    [Pid ! 1 || Pid <- All],
    wait(Actors),
    {ok, Status} = file:read_file("/proc/self/status"),
    {match, [Kilobytes]} = re:run(Status, "VmRSS:\\s*(\\d+)", [{capture, [1], list}]),
    list_to_integer(Kilobytes) * 1024;
run(crash, _, [Times]) ->
    error_logger:tty(false),
    logger:set_primary_config(level, none),
    process_flag(trap_exit, true),
    Supervisor = spawn_link(fun() -> process_flag(trap_exit, true), supervise() end),
    median([begin
        call(Supervisor),
        Ref = monitor(process, fragile),
        micros(fun() ->
            fragile ! crash,
            receive {'DOWN', Ref, process, _, _} -> ok end,
            call(Supervisor)
        end)
    end || _ <- lists:seq(1, Times)]);
run(ets_test, Schedulers, [Writers, Readers, Keys]) ->
    best([set], fun(T) ->
        split(Schedulers, Writers + Readers, fun(Who) ->
            times(2, fun() ->
                case Who =< Writers of
                    true -> [ets:insert(T, {K, Who}) || K <- lists:seq(0, Keys - 1)];
                    false -> [ets:lookup(T, K) || K <- lists:seq(0, Keys - 1)]
                end
            end)
        end)
    end, fun(_) -> ok end);
run(ets_bench, Schedulers, [Kind, Phase, Keys, Operations]) ->
    Updates = element(Phase + 1, {0, 0, 1, 10, 0}),
    best(kind(Kind), fun(T) ->
        threads(Schedulers, fun(Seed) ->
            bench_loop(Operations div Schedulers, Seed, T, Phase, Keys, Updates)
        end)
    end, fun(T) ->
        Phase > 0 andalso [ets:insert(T, {K, K}) || K <- lists:seq(0, Keys - 1)]
    end);
run(ets_random_ops, Schedulers, [Kind, Operations, Range, Insert, Delete, Lookup, _]) ->
    best(kind(Kind), fun(T) ->
        threads(Schedulers, fun(Seed) ->
            mix_loop(Operations div Schedulers, Seed, T, Range, Insert, Insert + Delete,
                     Insert + Delete + Lookup)
        end)
    end, fun(_) -> ok end);
run(ets_bulk, Schedulers, [Kind, Rows, Batch]) ->
    best(kind(Kind), fun(T) ->
        threads(Schedulers, fun(Seed) -> bulk_loop(Rows div Batch div Schedulers, Seed, T, Rows, Batch) end)
    end, fun(_) -> ok end);
run(ets_range, _, [Rows, Page]) ->
    best([ordered_set], fun(T) -> pages(ets:select(T, [{{'$1', '$2'}, [], ['$_']}], Page)) end,
         fun(T) -> [ets:insert(T, {K, K}) || K <- lists:seq(0, Rows - 1)] end);
run(_, _, _) ->
    none.

count(0) -> ok;
count(N) -> receive _ -> count(N - 1) end.

%% ---- All to all

everyone(N, Fun) ->
    Me = self(),
    All = [spawn(fun() ->
        receive {all, Pids} -> ok end,
        Fun(self(), lists:delete(self(), Pids)),
        Me ! done,
        serve()
    end) || _ <- lists:seq(1, N)],
    [Pid ! {all, All} || Pid <- All],
    wait(N).

serve() ->
    receive
        {ping, From} -> From ! pong, serve();
        _ -> serve()
    end.

big(Me, Others, N) ->
    [Other ! {ping, Me} || Other <- Others],
    big_wait(N).

big_wait(0) -> ok;
big_wait(N) ->
    receive
        {ping, From} -> From ! pong, big_wait(N);
        pong -> big_wait(N - 1)
    end.

wheel(_, 0, _) -> ok;
wheel(Me, N, After) ->
    receive
        {ping, From} -> From ! pong, wheel(Me, N - 1, After);
        pong -> wheel(Me, N - 1, After)
    after After -> exit(too_late)
    end.

%% ---- Hackbench

ehb_group(Me, Loops) ->
    Receivers = [spawn(fun ehb_receiver/0) || _ <- lists:seq(1, 20)],
    [spawn(fun() -> ehb_sender(Receivers, 1, Loops), Me ! done end) || _ <- lists:seq(1, 20)].

ehb_receiver() ->
    receive
        {none, _} -> ehb_receiver();
        {From, _} -> From ! ack, ehb_receiver()
    end.

ehb_sender(_, N, Loops) when N > Loops -> ok;
ehb_sender(Receivers, N, Loops) ->
    Data = {a, b, c, d, e, f, g, h, i, j, k, l},
    case N rem 100 =:= 0 orelse N =:= Loops of
        true ->
            [Receiver ! {self(), Data} || Receiver <- Receivers],
            [receive ack -> ok end || _ <- Receivers];
        false ->
            [Receiver ! {none, Data} || Receiver <- Receivers]
    end,
    ehb_sender(Receivers, N + 1, Loops).

%% ---- Calls

server() ->
    receive {Ref, From, N} -> From ! {Ref, N + 1}, server() end.

calls(_, 0) -> ok;
calls(Server, N) ->
    Ref = monitor(process, Server),
    Server ! {Ref, self(), N},
    receive {Ref, _} -> demonitor(Ref, [flush]) end,
    calls(Server, N - 1).

dispatch() ->
    receive {To, Body} -> To ! {item, Body}, dispatch() end.

return(Partner) -> receive ball -> Partner ! ball, return(Partner) end.

rally(_, 0) -> ok;
rally(Other, N) -> receive ball -> Other ! ball, rally(Other, N - 1) end.

idle(Me, {A, B}) ->
    receive
        N ->
            is_pid(Me) andalso (Me ! done),
            idle(none, {A + N, B})
    end.

%% ---- Crashes

supervise() ->
    Pid = spawn_link(fun() -> register(fragile, self()), fragile() end),
    receive {'EXIT', Pid, _} -> supervise() end.

fragile() ->
    receive
        crash -> exit(as_told);
        {ask, From, Ref} -> From ! {Ref, 1}, fragile()
    end.

call(Supervisor) ->
    case whereis(fragile) of
        undefined -> erlang:yield(), call(Supervisor);
        Pid ->
            Ref = monitor(process, Pid),
            Pid ! {ask, self(), Ref},
            receive
                {Ref, 1} -> demonitor(Ref, [flush]);
                {'DOWN', Ref, _, _, _} -> call(Supervisor)
            end
    end.

median(List) -> lists:nth(length(List) div 2 + 1, lists:sort(List)).

%% ---- Computing

each(Count, Fun) ->
    micros(fun() ->
        Me = self(),
        [spawn(fun() -> Fun(Number), Me ! done end) || Number <- lists:seq(0, Count - 1)],
        wait(Count)
    end).

row(_, Side, Side, Sum) -> Sum;
row(Row, Side, Column, Sum) ->
    Re = 4.0 * Column / Side - 2.0,
    Im = 4.0 * Row / Side - 2.0,
    row(Row, Side, Column + 1, Sum + escape(Re, Im, Re, Im, 0)).

escape(_, _, _, _, 255) -> 255;
escape(Re, Im, X, Y, N) when X * X + Y * Y =< 4.0 ->
    escape(Re, Im, X * X - Y * Y + Re, 2.0 * X * Y + Im, N + 1);
escape(_, _, _, _, N) -> N.

stamps(0, List) -> length(List);
stamps(N, List) -> stamps(N - 1, [erlang:monotonic_time() | List]).

timers(0) -> ok;
timers(N) ->
    Some = min(N, 1000),
    Refs = [erlang:send_after(1000000 + I rem 997, self(), late) || I <- lists:seq(1, Some)],
    [erlang:cancel_timer(Ref) || Ref <- Refs],
    timers(N - Some).

%% ---- Tables: the best of the options that ets has

kind(0) -> [set];
kind(1) -> [ordered_set].

best([Type], Work, Fill) ->
    Options = [
        [],
        [{read_concurrency, true}],
        [{write_concurrency, true}],
        [{write_concurrency, true}, {read_concurrency, true}, {decentralized_counters, true}],
        [{write_concurrency, auto}, {read_concurrency, true}]
    ],
    lists:min([begin
        T = ets:new(t, [Type, public | Option]),
        Fill(T),
        Micros = micros(fun() -> Work(T) end),
        ets:delete(T),
        Micros
    end || Option <- Options]).

threads(Count, Fun) ->
    Me = self(),
    [spawn(fun() -> Fun(rand:seed_s(exsss, Number)), Me ! done end) || Number <- lists:seq(1, Count)],
    wait(Count).

split(Schedulers, Count, Fun) ->
    threads(Schedulers, fun(Seed) ->
        First = first(Seed, Schedulers),
        [Fun(Who) || Who <- lists:seq(First, Count, Schedulers)]
    end).

%% Which of the threads this is: its seed is made of its number.
first(Seed, Schedulers) ->
    hd([Number || Number <- lists:seq(1, Schedulers), rand:seed_s(exsss, Number) =:= Seed]).

bench_loop(0, _, _, _, _, _) -> ok;
bench_loop(N, Seed, T, Phase, Keys, Updates) ->
    {R, Next} = rand:uniform_s(Keys, Seed),
    K = R - 1,
    case Phase of
        0 -> ets:insert(T, {K, K}), bench_loop(N - 1, Next, T, Phase, Keys, Updates);
        4 -> ets:delete(T, K), bench_loop(N - 1, Next, T, Phase, Keys, Updates);
        _ ->
            {P, Last} = rand:uniform_s(100, Next),
            case P =< Updates of
                true -> ets:insert(T, {K, K + 1});
                false -> ets:lookup(T, K)
            end,
            bench_loop(N - 1, Last, T, Phase, Keys, Updates)
    end.

mix_loop(0, _, _, _, _, _, _) -> ok;
mix_loop(N, Seed, T, Range, Insert, Delete, Lookup) ->
    {K, Next} = rand:uniform_s(Range, Seed),
    {P, Last} = rand:uniform_s(100, Next),
    if
        P =< Insert -> ets:insert(T, {K, K});
        P =< Delete -> ets:delete(T, K);
        P =< Lookup -> ets:lookup(T, K);
        true -> ok
    end,
    mix_loop(N - 1, Last, T, Range, Insert, Delete, Lookup).

bulk_loop(0, _, _, _, _) -> ok;
bulk_loop(N, Seed, T, Rows, Batch) ->
    {List, Next} = lists:mapfoldl(fun(_, S) ->
        {K, S1} = rand:uniform_s(Rows, S),
        {{K, 0}, S1}
    end, Seed, lists:seq(1, Batch)),
    ets:insert(T, List),
    bulk_loop(N - 1, Next, T, Rows, Batch).

pages('$end_of_table') -> ok;
pages({_, More}) -> pages(ets:select(More)).
