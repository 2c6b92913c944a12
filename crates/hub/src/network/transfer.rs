//! The content of a file.

use std::path::Path;
use std::time::Instant;

use reqwest::header::CONTENT_RANGE;
use reqwest::{Method, StatusCode};
use tokio::time::timeout;

use super::failure::Reason;
use super::partial::Partial;
use super::{Client, failure, header, seconds};
use crate::error::HubError;
use crate::listing::Metadata;

/// A file on its way.
struct Transfer<'t> {
    url: String,
    metadata: &'t Metadata,
    partial: Partial<'t>,
    progress: &'t mut dyn FnMut(u64),
    /// When the last byte came.
    alive: Instant,
}

impl Client<'_> {
    /// Downloads a file to `path`, going on from what is there already, and checks it.
    pub fn download(
        &self,
        commit: &str,
        file: &str,
        metadata: &Metadata,
        path: &Path,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), HubError> {
        let (url, partial) = (self.url(commit, file), Partial::open(path)?);
        self.wait(self.bring(Transfer { url, metadata, partial, progress, alive: Instant::now() }))
    }

    async fn bring(&self, mut transfer: Transfer<'_>) -> Result<(), HubError> {
        let metadata = transfer.metadata;
        let mut resumed = transfer.partial.len > 0;
        if resumed {
            tracing::debug!(url = transfer.url, bytes = transfer.partial.len, "resuming");
        }
        let started = Instant::now();
        let (mut furthest, mut failures) = (transfer.partial.len, 0);
        loop {
            if (metadata.size != Some(transfer.partial.len) || transfer.partial.len == 0)
                && let Some(reason) = self.transfer(&mut transfer).await?
            {
                let len = transfer.partial.len;
                failures = if len > furthest { 1 } else { failures + 1 };
                furthest = furthest.max(len);
                tracing::debug!(
                    url = transfer.url,
                    bytes = len,
                    failures,
                    reason = reason.text,
                    "transfer failed, trying again"
                );
                self.pause(failures, transfer.alive).await.map_err(|()| self.broken(&transfer.url, reason))?;
                continue;
            }
            let Err(reason) = transfer.partial.verify(metadata) else {
                let seconds = started.elapsed().as_secs_f64();
                tracing::debug!(url = transfer.url, bytes = transfer.partial.len, seconds, "downloaded and verified");
                return transfer.partial.finish();
            };
            transfer.partial.restart()?;
            // What was there before may have been broken; what came now was not meant to be.
            if !std::mem::replace(&mut resumed, false) {
                transfer.partial.remove();
                return Err(HubError::Corrupt { url: transfer.url, reason });
            }
        }
    }

    /// One request for the rest of a file. Returns why it ended early, if it did.
    async fn transfer(&self, transfer: &mut Transfer<'_>) -> Result<Option<Reason>, HubError> {
        let Transfer { url, metadata, partial, progress, alive } = transfer;
        if partial.len > metadata.most() {
            partial.restart()?;
        }
        let mut response = self.ask(Method::GET, url, Some(partial.len).filter(|len| *len > 0)).await?;
        let from = header(response.headers(), &CONTENT_RANGE)
            .and_then(|range| range.strip_prefix("bytes ")?.split('-').next()?.parse().ok());
        if response.status() != StatusCode::PARTIAL_CONTENT || from != Some(partial.len) {
            // The whole file, or nothing that fits: what is there is of no use.
            partial.restart()?;
        }
        if !response.status().is_success() || (from.is_some() && from != Some(partial.len)) {
            return Ok(Some(format!("the hub answers a request for a part with {}", response.status()).into()));
        }
        while partial.len <= metadata.most() {
            progress(partial.len);
            let limit = self.options.timeout.min(self.left(*alive));
            match timeout(limit, response.chunk()).await {
                Ok(Ok(Some(bytes))) => partial.append(&bytes)?,
                Ok(Ok(None)) => break,
                Ok(Err(e)) => return Ok(Some(failure::describe(&e))),
                Err(_) => return Ok(Some(format!("no byte within {}", seconds(alive.elapsed())).into())),
            }
            *alive = Instant::now();
        }
        let short = metadata.size.filter(|size| partial.len < *size);
        Ok(short.map(|size| format!("only {} of {size} bytes came", partial.len).into()))
    }
}
