%% The parallel orbit on Erlang/OTP: one process for each worker, a table of known vertices each,
%% termination by credit, Fibonacci numbers by naive recursion, as examples/orbit computes it.
-module(orbit).
-export([par/3]).

par(Set, Size, Workers) ->
    Master = self(),
    Pids = [spawn(fun() -> worker(Master, Set, Size) end) || _ <- lists:seq(1, Workers)],
    All = list_to_tuple(Pids),
    [Pid ! {peers, All} || Pid <- Pids],
    element(1 + erlang:phash2(0, Workers), All) ! {vertex, 0, 1},
    collect([1]),
    [Pid ! finish || Pid <- Pids],
    lists:sum([receive {size, Pid, N} -> N end || Pid <- Pids]).

collect([0]) -> ok;
collect(Credit) -> receive {done, More} -> collect(lists:foldl(fun add/2, Credit, More)) end.

worker(Master, Set, Size) ->
    receive {peers, All} -> ok end,
    Table = ets:new(vertices, [set]),
    loop(Master, Set, Size, All, Table, []).

loop(Master, Set, Size, All, Table, Credit) ->
    receive
        {vertex, X, K} ->
            Mine = add(K, Credit),
            case ets:insert_new(Table, {X}) of
                true -> loop(Master, Set, Size, All, Table, expand(Set, X, Size, All, Mine));
                false -> loop(Master, Set, Size, All, Table, Mine)
            end;
        finish -> Master ! {size, self(), ets:info(Table, size)}
    after 0 ->
        Credit =:= [] orelse (Master ! {done, Credit}),
        idle(Master, Set, Size, All, Table)
    end.

idle(Master, Set, Size, All, Table) ->
    receive
        {vertex, _, _} = Message -> self() ! Message, loop(Master, Set, Size, All, Table, []);
        finish -> Master ! {size, self(), ets:info(Table, size)}
    end.

expand([], _, _, _, Credit) -> Credit;
expand([F | Set], X, Size, All, Credit) ->
    Y = image(F, X, Size),
    {K, Left} = split(Credit),
    element(1 + erlang:phash2(Y, tuple_size(All)), All) ! {vertex, Y, K},
    expand(Set, X, Size, All, Left).

split([C]) -> {C + 1, [C + 1]};
split([C | Cs]) -> {C, Cs}.

add(K, [K | Cs]) -> add(K - 1, Cs);
add(K, [C | Cs]) when C > K -> carry(C, add(K, Cs));
add(K, Cs) -> [K | Cs].

carry(C, [C | Cs]) -> add(C - 1, Cs);
carry(C, Cs) -> [C | Cs].

image($1, X, R) -> abs(fib(X rem 16) + X) rem R;
image($2, X, R) -> abs(fib(5 + X rem 16) + 2 * X * X + 5 * X - 1) rem R;
image($3, X, R) -> abs(fib(10 + X rem 16) - X * X * X + 8 * X) rem R;
image($4, X, R) ->
    K = case X rem 100 of Y when Y < 49 -> 1; Y when Y < 98 -> 2; _ -> 3 end,
    abs(fib(8 * K + 3) - 1) rem R;
image($5, X, R) ->
    K = case X rem 1000 of Y when Y < 900 -> 1; Y when Y < 999 -> 2; _ -> 3 end,
    abs(fib(10 * K) + 1) rem R.

fib(0) -> 1;
fib(1) -> 1;
fib(N) -> fib(N - 1) + fib(N - 2).
