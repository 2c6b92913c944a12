//! The number format in which a model decodes fastest without drafts.

use crate::drafting::DrafterChoice;
use crate::failure::Failure;
use crate::measuring::{Options, Setup};
use crate::settings::{NumberFormats, Settings};
use gorgon_bench::median;
use gorgon_model::device::{FloatFormat, IntegerWeights, Products, Weights};
use serde::Serialize;

/// Formats that are measured, where the processor has them.
pub const CANDIDATES: [NumberFormats; 4] = [
    STORED,
    NumberFormats { dtype: Some(FloatFormat::F16), ..STORED },
    NumberFormats { compute_dtype: Products::Bf16, ..STORED },
    NumberFormats { integers: IntegerWeights { weights: Weights::Int8, ..IntegerWeights::STORED }, ..STORED },
];

/// The device's own.
const STORED: NumberFormats =
    NumberFormats { dtype: None, compute_dtype: Products::F32, integers: IntegerWeights::STORED };

/// Prompts that every format is measured on.
const PROMPTS: usize = 8;

/// Plain decoding in a number format.
#[derive(Clone, Debug, Serialize)]
pub struct PlainSpeed {
    /// The format.
    #[serde(skip)]
    pub formats: NumberFormats,
    /// The options that select it, as they are typed; none for the device's own.
    pub options: Option<String>,
    /// The format's name.
    pub name: &'static str,
    /// Tokens per second: the median over rounds.
    pub tokens_per_second: f64,
}

/// Measures plain decoding in every format, in alternating rounds, the fastest first. A format that was named on the
/// command line is the only one.
///
/// # Errors
/// When the model or the prompts are wrong.
pub fn plain_speeds(options: &Options, rounds: usize, settings: &Settings) -> Result<Vec<PlainSpeed>, Failure> {
    let typed = settings.number_formats().is_some();
    let candidates = if typed { vec![settings.formats] } else { CANDIDATES.to_vec() };
    let plain = Options { heads: None, drafter: DrafterChoice::None, tree: None, limit: PROMPTS, ..options.clone() };
    let mut setups = vec![];
    for formats in candidates {
        let settings = Settings { formats, ..settings.clone() };
        // A processor or device without a format leaves it out; one that was named has to be there.
        if typed || settings.compute().is_ok() {
            setups.push((formats, settings.number_formats(), Setup::new(&plain, &settings)?, vec![]));
        }
    }
    for round in 0..=rounds {
        for (.., setup, speeds) in &mut setups {
            let speed = speed(setup, settings.seed)?;
            // The first round warms up.
            speeds.extend(speed.filter(|_| round > 0));
        }
    }
    let mut found: Vec<PlainSpeed> = setups
        .into_iter()
        .filter_map(|(formats, options, setup, speeds)| {
            let name = setup.decoder.compute().precision();
            Some(PlainSpeed { formats, options, name, tokens_per_second: median(speeds)? })
        })
        .collect();
    found.sort_by(|a, b| b.tokens_per_second.total_cmp(&a.tokens_per_second));
    Ok(found)
}

/// Tokens per second over all prompts; `None` if the answers have one token each.
fn speed(setup: &mut Setup, seed: u64) -> Result<Option<f64>, Failure> {
    let prompts = setup.prompts.clone();
    let mut comparison = setup.comparison(seed);
    let mut target = comparison.target(prompts.iter().map(|prompt| prompt.ids.len()).max().unwrap_or(0));
    let (mut tokens, mut seconds) = (0, 0.0);
    for prompt in &prompts {
        let answer = comparison.plain(&mut target, &prompt.ids)?;
        // The first token comes from the prompt's pass.
        tokens += answer.ids.len().saturating_sub(1);
        seconds += answer.decode_time.as_secs_f64();
    }
    Ok((tokens > 0 && seconds > 0.0).then(|| tokens as f64 / seconds))
}
