//! Paths and their answers.

use super::events::Events;
use super::shared::{Asked, Shared};
use crate::api::answer::Answer;
use crate::api::error::ApiError;
use crate::api::models;
use crate::outbox::{Event, Receiver, Sender, outbox};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};
use gorgon_draft::store::StoreError;
use hyper::body::Body as _;
use serde_json::{Value, json};
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use subtle::ConstantTimeEq;
use tokio::time::{sleep, timeout};

/// The page.
const PAGE: &str = include_str!("page.html");
/// The page loads nothing but itself.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                           connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// How much later than the engine a connection gives an answer up.
const GRACE: Duration = Duration::from_secs(5);

/// Bytes of a body that is too long that are read and dropped.
const DROPPED: usize = 16 << 20;

type App = Arc<Shared>;
type Parse = fn(&Shared, &[u8], &Sender) -> Result<Asked, ApiError>;

/// All paths.
pub(super) fn router(shared: App) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .route("/v1/models", get(list))
        .route("/v1/store", get(store))
        .route("/v1/models/{*name}", get(one_model))
        .route("/v1/chat/completions", post(chat))
        .route("/v1/completions", post(completion))
        .fallback(nowhere)
        .method_not_allowed_fallback(no_method)
        .layer(from_fn_with_state(shared.clone(), guard))
        .with_state(shared)
}

/// Who may ask at all: the right host, the right key. Adds the headers of all answers.
async fn guard(State(shared): State<App>, request: Request, next: Next) -> Response {
    let origin = shared.options.cors.as_deref().and_then(|origin| HeaderValue::from_str(origin).ok());
    let is_open = matches!(request.uri().path(), "/" | "/health");
    let mut response = if origin.is_some() && request.method() == Method::OPTIONS {
        answer(StatusCode::NO_CONTENT, "text/plain", "")
    } else if let Err(error) = check_host(&shared, request.headers()) {
        failure(&error)
    } else if !is_open && !has_key(&shared, request.headers()) {
        let error = ApiError::new(401, "invalid_request_error", "the API key is missing or wrong");
        failure(&error.code("invalid_api_key"))
    } else {
        next.run(request).await
    };
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        let allowed = HeaderValue::from_static("authorization, content-type");
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
        headers.insert(header::VARY, HeaderValue::from_static("origin"));
    }
    response
}

/// On a loopback address, requests must name one: a page of the web whose name was pointed here is refused.
fn check_host(shared: &Shared, headers: &HeaderMap) -> Result<(), ApiError> {
    if !shared.options.address.ip().is_loopback() {
        return Ok(());
    }
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => host.split(':').next().unwrap_or(host),
    };
    let local = name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    let refused = || ApiError::new(403, "invalid_request_error", "the Host header names no loopback address");
    if local { Ok(()) } else { Err(refused()) }
}

/// Whether a request brings the key. Takes as long for a key that is nearly right as for any of its length.
fn has_key(shared: &Shared, headers: &HeaderMap) -> bool {
    let Some(key) = &shared.options.api_key else { return true };
    let given = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
    let given = given.strip_prefix(b"Bearer ").unwrap_or_default();
    given.ct_eq(key.as_bytes()).into()
}

async fn page() -> Response {
    let mut response = answer(StatusCode::OK, "text/html; charset=utf-8", PAGE);
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE_POLICY));
    response
}

async fn health(State(shared): State<App>) -> Response {
    match shared.queue.is_stopping() {
        true => document(StatusCode::SERVICE_UNAVAILABLE, &json!({"status": "stopping"})),
        false => document(StatusCode::OK, &json!({"status": "ok"})),
    }
}

async fn metrics(State(shared): State<App>) -> Response {
    shared.metrics.queued.set(shared.queue.len());
    answer(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", shared.metrics.text())
}

async fn list(State(shared): State<App>) -> Response {
    document(StatusCode::OK, &models::list(&shared.model))
}

async fn one_model(State(shared): State<App>, request: Request) -> Response {
    let name = request.uri().path().trim_start_matches("/v1/models/");
    match name == shared.model.name {
        true => document(StatusCode::OK, &models::model(&shared.model)),
        false => {
            let error = ApiError::new(404, "invalid_request_error", "this model is not served here");
            failure(&error.code("model_not_found"))
        }
    }
}

/// All kept answers as a store file. They are those of all clients, so on an address that others reach a key has to be
/// set.
async fn store(State(shared): State<App>) -> Response {
    let refused = |status, reason: &str| failure(&ApiError::new(status, "invalid_request_error", reason));
    let options = &shared.options;
    let Some(live) = options.store.clone() else {
        return refused(404, "this server keeps no answers: --drafter suffix:live does");
    };
    if options.api_key.is_none() && !options.address.ip().is_loopback() {
        return refused(
            403,
            "without an API key, the answers of all clients are handed out on a loopback address only",
        );
    }
    match tokio::task::spawn_blocking(move || live.bytes()).await {
        Ok(Ok(bytes)) => answer(StatusCode::OK, "application/octet-stream", bytes),
        Ok(Err(StoreError::Empty)) => refused(404, "no answer is finished yet"),
        _ => failure(&ApiError::server("the store cannot be ordered")),
    }
}

async fn nowhere() -> Response {
    failure(&ApiError::new(404, "invalid_request_error", "there is nothing at this path").code("unknown_url"))
}

async fn no_method() -> Response {
    failure(&ApiError::new(405, "invalid_request_error", "this path does not take this method"))
}

async fn chat(State(shared): State<App>, request: Request) -> Response {
    asked(shared, request, Shared::chat).await.unwrap_or_else(|error| failure(&error))
}

async fn completion(State(shared): State<App>, request: Request) -> Response {
    asked(shared, request, Shared::completion).await.unwrap_or_else(|error| failure(&error))
}

/// Reads a request, puts it into the queue, and answers whole or as a stream.
async fn asked(shared: App, request: Request, parse: Parse) -> Result<Response, ApiError> {
    let body = read(&shared, request).await?;
    let (sender, receiver) = outbox();
    // Templates and tokenizers take their time.
    let parser = shared.clone();
    let parsed = tokio::task::spawn_blocking(move || parse(&parser, &body, &sender)).await;
    let Asked { jobs, shape, stream } = parsed.map_err(|_| ApiError::server("a defect of the server"))??;
    let answer = Answer::new(shape, shared.model.renderer.text().clone(), jobs.len());
    shared.push(jobs)?;
    let (patience, seconds) =
        (shared.options.limits.request_time + GRACE, shared.options.limits.request_time.as_secs());
    if stream {
        let events = Events { answer, receiver, deadline: Box::pin(sleep(patience)), seconds, done: false };
        let mut response = self::answer(StatusCode::OK, "text/event-stream", Body::new(events));
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        return Ok(response);
    }
    let whole = timeout(patience, whole(answer, receiver.whole())).await;
    whole.map_err(|_| ApiError::late(seconds))?.map(|whole| document(StatusCode::OK, &whole))
}

/// Waits for all of an answer.
async fn whole(mut answer: Answer, mut receiver: Receiver) -> Result<Value, ApiError> {
    while !answer.is_done() {
        match receiver.next().await {
            Event::Failed(error) => return Err(error),
            event => answer.collect(event),
        }
    }
    Ok(answer.whole())
}

/// The body of a request.
async fn read(shared: &Shared, request: Request) -> Result<Vec<u8>, ApiError> {
    let limits = &shared.options.limits;
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    // Pages of the web can send other types without asking.
    if !kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json")) {
        return Err(ApiError::new(415, "invalid_request_error", "the Content-Type must be application/json"));
    }
    let too_long = || {
        let message = format!("the body is longer than {} bytes", limits.body_bytes);
        ApiError::new(413, "invalid_request_error", message)
    };
    let read = timeout(limits.client_time, bytes(request.into_body(), limits.body_bytes)).await;
    let late = |_| ApiError::new(408, "timeout_error", "the body did not arrive in time");
    read.map_err(late)?.ok_or_else(too_long)
}

/// The bytes of a body; `None` where there are more than `most`, or it broke off. Some of what is too much is read and
/// dropped: a client that still sends would not see the answer.
async fn bytes(mut body: Body, most: usize) -> Option<Vec<u8>> {
    let (mut bytes, mut dropped) = (vec![], 0);
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let Ok(data) = frame.ok()?.into_data() else { continue };
        if dropped > 0 || bytes.len() + data.len() > most {
            dropped += bytes.len() + data.len();
            bytes = vec![];
        } else {
            bytes.extend_from_slice(&data);
        }
        if dropped > most + DROPPED {
            return None;
        }
    }
    (dropped == 0).then_some(bytes)
}

fn answer(status: StatusCode, kind: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn document(status: StatusCode, body: &Value) -> Response {
    answer(status, "application/json", body.to_string())
}

/// An error as an answer.
fn failure(error: &ApiError) -> Response {
    const RETRY: HeaderName = header::RETRY_AFTER;
    let status = StatusCode::from_u16(error.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = document(status, &error.body());
    if let Some(seconds) = error.retry_after {
        response.headers_mut().insert(RETRY, seconds.into());
    }
    response
}
