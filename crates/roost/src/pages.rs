//! The pages of the web: health, figures, where streams begin (XEP-0156), and the web client. Owns
//! what each path answers; who may ask, and streams themselves, are the shards' affair.

use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tower_http::services::ServeDir;

use crate::http::{Figures, Health, Stage};

/// What pages are made from.
#[derive(Clone)]
pub(crate) struct Pages {
    pub(crate) health: Health,
    pub(crate) figures: Figures,
    /// Where clients reach the server, if that is not where they asked.
    pub(crate) url: Option<String>,
    /// Whether there are streams over WebSocket.
    pub(crate) websocket: bool,
    /// Whether there are sessions over BOSH.
    pub(crate) bosh: bool,
    /// The folder of npm packages with the web client; `None` if it is switched off.
    pub(crate) client: Option<Option<PathBuf>>,
    /// The domain that the web client offers.
    pub(crate) domain: String,
}

/// The page of the web client, its settings, and what `/` says without it.
const CLIENT_PAGE: &str = include_str!("pages/client.html");
const CLIENT_SCRIPT: &str = include_str!("pages/client.js");
const NO_CLIENT_PAGE: &str = include_str!("pages/no-client.html");

/// Where converse.js keeps what a browser loads, inside of a folder of npm packages.
const CONVERSE: &str = "converse.js/dist";

/// Every page.
pub(crate) fn router(pages: Pages) -> Router {
    let mut router = Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(pages.health.clone())
        .merge(
            Router::new()
                .route("/metrics", get(metrics))
                .with_state(pages.figures.clone()),
        );
    let shared = Arc::new(pages);
    router = router.merge(
        Router::new()
            .route("/.well-known/host-meta", get(host_meta))
            .route("/.well-known/host-meta.json", get(host_meta_json))
            .with_state(Arc::clone(&shared)),
    );
    let Some(folder) = &shared.client else {
        return router;
    };
    let folder = folder.as_ref().map(|folder| folder.join(CONVERSE));
    let Some(folder) = folder.filter(|folder| folder.join("converse.min.js").is_file()) else {
        return router.route("/", get(|| async { html(NO_CLIENT_PAGE) }));
    };
    let client = Router::new()
        .route("/", get(|| async { html(CLIENT_PAGE) }))
        .route("/client.js", get(|| async { script(CLIENT_SCRIPT) }))
        .route("/client.json", get(client_settings))
        .nest_service("/converse", ServeDir::new(folder))
        .layer(map_response(guard))
        .with_state(shared);
    router.merge(client)
}

/// Health alone, for as long as no shard answers; anything else is asked for too early or too late.
pub(crate) fn checks(health: &Health) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .fallback(|| async { (StatusCode::SERVICE_UNAVAILABLE, "try again\n") })
        .with_state(health.clone())
}

/// Whether the process is worth keeping: only a failure that a restart would mend says no.
async fn healthz(State(health): State<Health>) -> (StatusCode, &'static str) {
    match health.stage() {
        Stage::Starting | Stage::Ready | Stage::Draining => (StatusCode::OK, "ok\n"),
        Stage::Broken => (StatusCode::SERVICE_UNAVAILABLE, "broken\n"),
    }
}

/// Whether to send it new clients.
async fn readyz(State(health): State<Health>) -> (StatusCode, String) {
    match health.ready() {
        Ok(()) => (StatusCode::OK, "ready\n".to_owned()),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}

/// Everything that is counted.
async fn metrics(State(figures): State<Figures>) -> Response {
    match figures.page() {
        Some(page) => {
            let kind = [(header::CONTENT_TYPE, figures.content_type)];
            (kind, page.to_string()).into_response()
        }
        None => (StatusCode::SERVICE_UNAVAILABLE, "starting\n").into_response(),
    }
}

// ---- Where streams begin -----------------------------------------------------------------------

/// The relations of XEP-0156 section 3, with the path of each.
const RELATIONS: [(&str, &str, &str, &str); 2] = [
    (
        "urn:xmpp:alt-connections:websocket",
        "wss",
        "ws",
        "/xmpp-websocket",
    ),
    (
        "urn:xmpp:alt-connections:xbosh",
        "https",
        "http",
        "/http-bind",
    ),
];

impl Pages {
    /// The links of the ways that are open, for a client that came this way.
    fn links(&self, headers: &HeaderMap) -> Vec<(&'static str, String)> {
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let forwarded = HeaderName::from_static("x-forwarded-proto");
        let (is_secure, host) = match &self.url {
            Some(url) => {
                let (scheme, host) = url.split_once("://").unwrap_or(("https", url));
                (scheme != "http", host.trim_end_matches('/'))
            }
            None => {
                let host = text(header::HOST).unwrap_or_default();
                (text(forwarded) == Some("https"), host)
            }
        };
        // What came from outside becomes part of a page.
        let is_host = |c: char| c.is_ascii_alphanumeric() || "-._~:[]/".contains(c);
        if host.is_empty() || !host.chars().all(is_host) {
            return Vec::new();
        }
        let open = [self.websocket, self.bosh];
        let ways = RELATIONS.iter().zip(open).filter(|(_, is_open)| *is_open);
        ways.map(|((relation, secure, plain, path), _)| {
            let scheme = if is_secure { secure } else { plain };
            (*relation, format!("{scheme}://{host}{path}"))
        })
        .collect()
    }
}

/// A page that any other page may read (XEP-0156 section 4).
fn open_to_all(kind: &'static str, body: String) -> Response {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
    ];
    (headers, body).into_response()
}

async fn host_meta(State(pages): State<Arc<Pages>>, headers: HeaderMap) -> Response {
    let mut body = String::from(
        "<?xml version='1.0' encoding='utf-8'?>\n\
         <XRD xmlns='http://docs.oasis-open.org/ns/xri/xrd-1.0'>\n",
    );
    for (relation, href) in pages.links(&headers) {
        body.push_str(&format!("  <Link rel='{relation}' href='{href}'/>\n"));
    }
    body.push_str("</XRD>\n");
    open_to_all("application/xrd+xml", body)
}

async fn host_meta_json(State(pages): State<Arc<Pages>>, headers: HeaderMap) -> Response {
    let links = pages.links(&headers);
    let links: Vec<_> = links
        .iter()
        .map(|(rel, href)| serde_json::json!({ "rel": rel, "href": href }))
        .collect();
    let body = serde_json::json!({ "links": links });
    open_to_all("application/json", format!("{body:#}\n"))
}

// ---- The web client ----------------------------------------------------------------------------

/// What the page's script is told of this server.
async fn client_settings(State(pages): State<Arc<Pages>>, headers: HeaderMap) -> Response {
    let links = pages.links(&headers);
    let way = |name: &str| {
        let found = links.iter().find(|(relation, _)| relation.ends_with(name));
        found.map(|(_, href)| href.clone())
    };
    let settings = serde_json::json!({
        "domain": pages.domain,
        "websocket": way("websocket"),
        "bosh": way("xbosh"),
    });
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (kind, settings.to_string()).into_response()
}

fn html(page: &'static str) -> Response {
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response()
}

fn script(text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, "text/javascript")], text).into_response()
}

/// Nothing but what this server gives runs in the page, and no other page frames it.
async fn guard(mut response: Response) -> Response {
    const POLICY: &str = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; \
                          style-src 'self' 'unsafe-inline'; img-src 'self' data: blob: https:; \
                          media-src 'self' data: blob: https:; connect-src 'self' ws: wss: https:; \
                          frame-ancestors 'none'; base-uri 'none'; form-action 'self'";
    let headers = response.headers_mut();
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests;
