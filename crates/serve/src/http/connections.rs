//! Connections: accepted, limited, served, and ended.

use super::routes::router;
use super::shared::Shared;
use super::timed::Timed;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

/// Bytes and number of a request's headers at most.
const HEADER_BYTES: usize = 32 << 10;
const HEADERS: usize = 64;
/// Answer to a connection too many.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n\
Connection: close\r\nContent-Length: 100\r\n\r\n\
{\"error\":{\"message\":\"too many connections\",\"type\":\"server_error\",\"param\":null,\"code\":\"connections\"}}";
/// Connections that are told so at once, and how long each is given to send its request.
const REFUSALS: usize = 64;
const REFUSAL_TIME: Duration = Duration::from_secs(1);
/// Pause after a connection could not be accepted, as where no file descriptors are left.
const PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections until the server stops, and then waits for those that are open.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>, mut stop: watch::Receiver<bool>) {
    let most = shared.options.limits.connections;
    let (permits, refusals) = (Arc::new(Semaphore::new(most)), Arc::new(Semaphore::new(REFUSALS)));
    let routes = router(shared.clone());
    loop {
        let stopped = async { stop.wait_for(|stop| *stop).await.is_ok() };
        let accepted = match first(listener.accept(), stopped).await {
            Some(accepted) => accepted,
            None => break,
        };
        let Ok((stream, _)) = accepted else {
            sleep(PAUSE).await;
            continue;
        };
        let Ok(permit) = permits.clone().try_acquire_owned() else {
            // Whoever is one too many of these gets no answer.
            if let Ok(permit) = refusals.clone().try_acquire_owned() {
                tokio::spawn(async move {
                    refuse(&stream).await;
                    drop(permit);
                });
            }
            continue;
        };
        shared.metrics.connections.set(most - permits.available_permits());
        let (shared, routes, permits, stop) = (shared.clone(), routes.clone(), permits.clone(), stop.clone());
        tokio::spawn(async move {
            serve(stream, &shared, routes, stop).await;
            drop(permit);
            shared.metrics.connections.set(most - permits.available_permits());
        });
    }
    drop(listener);
    // Every permit is back when every connection has ended.
    let _ = permits.acquire_many(u32::try_from(most).unwrap_or(u32::MAX)).await;
}

/// Tells a client that there are too many. Its request is read first: a connection that is closed with something unread
/// is reset, and the answer lost.
async fn refuse(stream: &TcpStream) {
    let mut unread = [0; 4096];
    if let Ok(Ok(())) = timeout(REFUSAL_TIME, stream.readable()).await {
        let _ = stream.try_read(&mut unread);
        let _ = stream.try_write(FULL);
    }
}

/// Serves a connection until it ends, or its last answer once the server stops.
async fn serve(stream: TcpStream, shared: &Shared, routes: axum::Router, mut stop: watch::Receiver<bool>) {
    let limits = &shared.options.limits;
    let _ = stream.set_nodelay(true);
    let io = TokioIo::new(Timed::new(stream, limits.client_time));
    let mut connection = std::pin::pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.client_time)
            .max_buf_size(HEADER_BYTES)
            .max_headers(HEADERS)
            .serve_connection(io, TowerToHyperService::new(routes))
    );
    let stopped = async { stop.wait_for(|stop| *stop).await.is_ok() };
    if let Some(ended) = first(connection.as_mut(), stopped).await {
        if let Err(error) = ended {
            tracing::debug!(%error, "connection ended");
        }
        return;
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

/// The result of `work`, unless `other` is there first.
async fn first<T>(work: impl Future<Output = T>, other: impl Future) -> Option<T> {
    let (mut work, mut other) = (std::pin::pin!(work), std::pin::pin!(other));
    std::future::poll_fn(|context| {
        if let std::task::Poll::Ready(done) = work.as_mut().poll(context) {
            return std::task::Poll::Ready(Some(done));
        }
        other.as_mut().poll(context).map(|_| None)
    })
    .await
}
