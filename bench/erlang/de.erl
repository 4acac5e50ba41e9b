%% DE-Bench's ten commands between nodes of Erlang/OTP, as `bench-actors de` gives them:
%% `de:main([Nodes, Workers, Seconds, Groups, Schedulers])` starts so many nodes, linked all with
%% all or cut into global groups, and prints one line for each command: how many a second, median
%% and 99th of a hundred in microseconds, errors.
-module(de).
-export([main/1, start/1, work/3, brief/0, echo/1]).
-export([init/1, handle_call/3, handle_cast/2, callback_mode/0, flip/3]).

-define(WITHIN, 60000).

commands() ->
    [spawning, remote_call, gen_server_call, fsm_server_call,
     global_register, global_whereis, global_unregister,
     local_register, local_whereis, local_unregister].

main(Words) ->
    [Count, Workers, Seconds, Groups, Schedulers] = [list_to_integer(Word) || Word <- Words],
    Numbers = lists:seq(0, Count - 1),
    Names = [list_to_atom("de" ++ integer_to_list(N) ++ "@127.0.0.1") || N <- Numbers],
    Peers = [peer(N, Names, Groups, Schedulers) || N <- Numbers],
    [true = peer:call(Peer, de, start, [Names], ?WITHIN) || Peer <- Peers],
    Me = self(),
    [spawn_link(fun() ->
        Me ! {figures, peer:call(Peer, de, work, [Names, Workers, Seconds], (Seconds + 120) * 1000)}
    end) || Peer <- Peers],
    All = lists:append([receive {figures, Figures} -> Figures end || _ <- Peers]),
    io:format("| command | a second | median us | 99 % us | errors |~n|---|---|---|---|---|~n"),
    [line(Command, All, Seconds) || Command <- commands()],
    [peer:stop(Peer) || Peer <- Peers],
    halt(0).

peer(Number, Names, Groups, Schedulers) ->
    Threads = integer_to_list(Schedulers),
    {ok, Peer, _} = peer:start_link(#{
        name => "de" ++ integer_to_list(Number), host => "127.0.0.1", longnames => true,
        connection => standard_io, wait_boot => ?WITHIN,
        args => ["-setcookie", "de", "+S", Threads ++ ":" ++ Threads,
                 "-pa", filename:dirname(code:which(?MODULE)),
                 "-kernel", "logger_level", "none" | groups(Names, Groups)]
    }),
    Peer.

groups(_, 0) -> [];
groups(Names, Groups) ->
    Numbered = lists:zip(lists:seq(0, length(Names) - 1), Names),
    Members = fun(G) -> [Name || {N, Name} <- Numbered, N rem Groups =:= G] end,
    Term = [{list_to_atom("g" ++ integer_to_list(G)), Members(G)} || G <- lists:seq(0, Groups - 1)],
    ["-kernel", "global_groups", lists:flatten(io_lib:format("~w", [Term]))].

line(Command, All, Seconds) ->
    Good = lists:sort([Micros || {C, Micros} <- All, C =:= Command, is_integer(Micros)]),
    Errors = length([bad || {C, error} <- All, C =:= Command]),
    Count = length(Good),
    io:format("| ~s | ~b | ~b | ~b | ~b |~n",
              [Command, round(Count / Seconds), at(Good, Count, 50), at(Good, Count, 99), Errors]).

at(_, 0, _) -> 0;
at(Good, Count, Share) -> lists:nth(Count * Share div 100 + 1, Good).

%% ---- On each node

start(Names) ->
    Owner = spawn(fun() ->
        {ok, _} = gen_server:start_link({local, server}, ?MODULE, server, []),
        {ok, _} = gen_statem:start_link({local, machine}, ?MODULE, machine, []),
        receive never -> ok end
    end),
    [pong = net_adm:ping(Name) || Name <- Names],
    is_pid(Owner).

%% A server with one state and one with two.
init(server) -> {ok, none};
init(machine) -> {ok, flip, false}.
handle_call(Body, _, State) -> {reply, Body, State}.
handle_cast(_, State) -> {noreply, State}.
callback_mode() -> state_functions.
flip({call, From}, _, IsOpen) -> {keep_state, not IsOpen, [{reply, From, IsOpen}]}.

brief() -> ok.
echo(Body) -> Body.

work(Names, Workers, Seconds) ->
    Me = self(),
    ok = case whereis(global_group) of undefined -> global:sync(); _ -> ok end,
    End = erlang:monotonic_time(microsecond) + Seconds * 1000000,
    All = [spawn_link(fun() ->
        rand:seed(exsss, {Number, erlang:phash2(node()), 1}),
        Me ! {done, self(), loop(Names -- [node()], Number, 0, End, [])}
    end) || Number <- lists:seq(1, Workers)],
    lists:append([receive {done, Pid, Figures} -> Figures end || Pid <- All]).

loop(Others, Number, Step, End, Figures) ->
    case erlang:monotonic_time(microsecond) >= End of
        true -> Figures;
        false -> loop(Others, Number, Step + 1, End, step(Others, Number, Step) ++ Figures)
    end.

step(Others, Number, Step) ->
    Node = lists:nth(rand:uniform(length(Others)), Others),
    Body = binary:copy(<<7>>, 64),
    case rand:uniform(6) of
        1 -> [time(spawning, fun() -> spawn(Node, de, brief, []) end)];
        2 -> [time(remote_call, fun() -> Body = rpc:call(Node, de, echo, [Body], ?WITHIN) end)];
        3 -> [time(gen_server_call, fun() ->
                 Body = gen_server:call({server, Node}, Body, ?WITHIN)
             end)];
        4 -> [time(fsm_server_call, fun() ->
                 true = is_boolean(gen_statem:call({machine, Node}, Body, ?WITHIN))
             end)];
        5 ->
            Name = {node(), Number, Step},
            with_pid(fun(Pid) -> [
                time(global_register, fun() -> yes = global:register_name(Name, Pid) end),
                time(global_whereis, fun() -> Pid = global:whereis_name(Name) end),
                time(global_unregister, fun() -> global:unregister_name(Name) end)
            ] end);
        6 ->
            %% Atoms are never forgotten: a few names are used again and again.
            Name = list_to_atom("local" ++ integer_to_list(Number)),
            with_pid(fun(Pid) -> [
                time(local_register, fun() -> true = register(Name, Pid) end),
                time(local_whereis, fun() -> Pid = whereis(Name) end),
                time(local_unregister, fun() -> true = unregister(Name) end)
            ] end)
    end.

with_pid(Fun) ->
    Pid = spawn(fun() -> receive 'end' -> ok end end),
    Figures = Fun(Pid),
    Pid ! 'end',
    Figures.

time(Command, Fun) ->
    Began = erlang:monotonic_time(microsecond),
    try Fun() of
        _ -> {Command, erlang:monotonic_time(microsecond) - Began}
    catch
        _:_ -> {Command, error}
    end.
