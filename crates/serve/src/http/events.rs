//! An answer as server-sent events.

use crate::api::answer::Answer;
use crate::api::error::ApiError;
use crate::outbox::{Event, Receiver};
use hyper::body::{Body, Bytes, Frame};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::time::Sleep;

/// Bytes that one frame collects where more is there already.
const FRAME: usize = 16 << 10;

/// The body of a streamed answer: it asks for events as fast as the connection takes them.
pub(super) struct Events {
    pub answer: Answer,
    pub receiver: Receiver,
    /// Fires some time after the engine should have given the answer up.
    pub deadline: Pin<Box<Sleep>>,
    pub seconds: u64,
    pub done: bool,
}

impl Events {
    fn write(&mut self, event: Event, out: &mut String) {
        let failed = matches!(event, Event::Failed(_));
        for chunk in self.answer.chunks(event) {
            out.push_str("data: ");
            out.push_str(&chunk.to_string());
            out.push_str("\n\n");
        }
        self.done = failed || self.answer.is_done();
        if self.done && !failed {
            out.push_str("data: [DONE]\n\n");
        }
    }
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let mut out = String::new();
        while !self.done && out.len() < FRAME {
            match self.receiver.poll(context) {
                Poll::Ready(event) => self.write(event, &mut out),
                Poll::Pending if self.deadline.as_mut().poll(context).is_ready() => {
                    let late = ApiError::late(self.seconds);
                    self.write(Event::Failed(late), &mut out);
                }
                Poll::Pending => break,
            }
        }
        match out.is_empty() {
            false => Poll::Ready(Some(Ok(Frame::data(out.into())))),
            true if self.done => Poll::Ready(None),
            true => Poll::Pending,
        }
    }
}
