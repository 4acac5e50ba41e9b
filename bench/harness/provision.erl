%% Fills ejabberd's Mnesia tables with the accounts and contacts of the benchmark, inside a running
%% ejabberd: u0@localhost to u<N-1>@localhost, SCRAM-SHA-1 keys given, ring contacts.
%%
%% The tuples are the rows of ejabberd's tables `passwd` and `roster`.
-module(provision).
-export([run/1, join/1]).

-define(HOST, <<"localhost">>).

run([Users, Contacts, StoredKey, ServerKey, Salt, Iterations, Ready]) ->
    [N, C, I] = [list_to_integer(Text) || Text <- [Users, Contacts, Iterations]],
    Keys = {scram, list_to_binary(StoredKey), list_to_binary(ServerKey), list_to_binary(Salt),
            sha, I},
    lists:foreach(fun(User) -> account(User, N, C div 2, Keys) end, lists:seq(0, N - 1)),
    ok = file:write_file(Ready, integer_to_list(mnesia:table_info(passwd, size))).

%% Makes this node one with another, whose tables it copies.
join([Node, Ready]) ->
    ok = ejabberd_cluster:join(list_to_atom(Node)),
    ok = file:write_file(Ready, Node).

account(User, N, Half, Keys) ->
    Us = {name(User), ?HOST},
    ok = mnesia:dirty_write({passwd, Us, Keys}),
    lists:foreach(
        fun(Step) ->
            Jid = {name((User + Step + N) rem N), ?HOST, <<>>},
            Item = {roster, {name(User), ?HOST, Jid}, Us, Jid, <<>>, both, none, [], <<>>, []},
            ok = mnesia:dirty_write(Item)
        end,
        [Step || Step <- lists:seq(-Half, Half), Step =/= 0]
    ).

name(User) ->
    <<"u", (integer_to_binary(User))/binary>>.
