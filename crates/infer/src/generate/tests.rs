//! Tests of `generate`.

use super::*;
use crate::executor::Progress;
use crate::turn::Outcomes;
use gorgon_core::PooledVec;
use gorgon_core::accept::random::SeededRandom;

/// Steps that emit several tokens each, as a device does that knows no limits, over a cache of a given context.
struct Steps {
    context: usize,
    tokens: usize,
    read: usize,
}

impl Executor for Steps {
    fn slots(&self) -> usize {
        1
    }

    fn read(&self, _: usize) -> usize {
        0
    }

    fn context(&self, _: usize) -> usize {
        self.context
    }

    fn read_on(&mut self, _: usize, request: &mut Request<'_>) -> Result<Progress, DecodeError> {
        self.read = request.text.len();
        Ok(Progress { first: Some(7), read: self.read })
    }

    fn step(&mut self, turns: &mut [Turn<'_>], _: &mut StepTimes) -> Result<Outcomes, DecodeError> {
        let mut tokens = PooledVec::of(7, self.tokens);
        turns[0].cut(&mut tokens);
        self.read += tokens.len();
        assert!(self.read <= self.context, "{} tokens are read", self.read);
        Ok(Outcomes::from_buf([StepOutcome { accepted: self.tokens - 1, tokens, nodes: self.tokens }]))
    }
}

#[test]
fn the_context_is_exact_to_the_token() {
    for tokens in 1..6 {
        let mut steps = Steps { context: 20, tokens, read: 0 };
        let mut decode = |max_new_tokens| {
            let limits = Limits { max_new_tokens, end_tokens: vec![] };
            let request = Request::new(&[1, 2], &limits, SeededRandom::new(0));
            generate_one(&mut steps, request, &mut |_| ControlFlow::Continue(()))
        };
        // The last new token is emitted and never read.
        assert_eq!(decode(19).unwrap().ids, [7; 19], "{tokens}");
        let error = decode(20).unwrap_err();
        assert!(matches!(error, DecodeError::Context { prompt: 2, new: 20, context: 20 }), "{error}");
    }
}
