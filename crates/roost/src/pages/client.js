// Starts the web client with what the server says of itself. Its own settings are Converse.js's.
(async () => {
  const server = await (await fetch('/client.json')).json();
  converse.initialize({
    assets_path: '/converse/',
    authentication: 'login',
    auto_away: 0,
    auto_reconnect: true,
    bosh_service_url: server.bosh ?? undefined,
    default_domain: server.domain,
    discover_connection_methods: false,
    i18n: 'en',
    locked_domain: server.domain,
    message_archiving: 'always',
    registration_domain: server.domain,
    reuse_scram_keys: true,
    view_mode: 'fullscreen',
    websocket_url: server.websocket ?? undefined,
  });
})();
