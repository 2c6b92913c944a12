//! The conversations that a pretraining fits to.

use crate::failure::Failure;
use crate::fitting::Inputs;
use crate::prompts;
use crate::settings::Settings;
use gorgon_data::drills::Drills;
use gorgon_data::render::{Example, RenderError, Renderer};
use gorgon_data::source::{self, Conversation, Options};
use gorgon_tiny_chat::{self as synth, Dialogue, Split};
use gorgon_train::config::{Finish, PretrainConfig};
use rayon::prelude::*;

/// A conversation with its answers: system prompt and turns.
#[derive(Clone, Debug)]
pub struct Given {
    system: Option<String>,
    turns: Vec<(String, String)>,
}

impl From<Dialogue> for Given {
    fn from(dialogue: Dialogue) -> Self {
        let turns = dialogue.exchanges.into_iter().map(|exchange| (exchange.user, exchange.assistant)).collect();
        Self { system: dialogue.system, turns }
    }
}

impl From<Conversation> for Given {
    fn from(conversation: Conversation) -> Self {
        let turns = conversation.turns.into_iter().map_while(|turn| Some((turn.user, turn.assistant?))).collect();
        Self { system: conversation.system, turns }
    }
}

impl Given {
    fn render(&self, renderer: &Renderer, longest: usize) -> Result<Example, RenderError> {
        let turns = self.turns.iter().map(|(user, assistant)| (user.as_str(), assistant.as_str()));
        let mut example = renderer.conversation(self.system.as_deref(), turns)?;
        example.truncate(longest);
        Ok(example)
    }
}

/// Everything to fit to and to measure on.
pub struct Corpus {
    synthetic: u64,
    held_out: u64,
    drills: u64,
    seed: u64,
    files: Vec<Given>,
    /// The files that were read.
    pub inputs: Inputs,
}

impl Corpus {
    /// Reads the files of a config.
    ///
    /// # Errors
    /// When one cannot be read, holds no answers, or there is nothing at all.
    pub fn read(config: &PretrainConfig, settings: &Settings) -> Result<Self, Failure> {
        let mut files = vec![];
        let inputs = prompts::paths(&config.data.files, settings)?;
        for path in &inputs {
            prompts::refuse_folder(path)?;
            let options = Options { answers_required: true, ..Options::default() };
            let (conversations, report) = source::read(path, &options)?;
            settings.console.say(report.to_string().trim_end());
            files.extend(conversations.into_iter().map(Given::from).filter(|given| !given.turns.is_empty()));
        }
        let data = &config.data;
        if files.is_empty() && data.synthetic == 0 {
            let hint = "name files of conversations with data.files, or a number of data.synthetic dialogues";
            return Err(Failure::input("data: there is nothing to fit to").hint(hint));
        }
        let (synthetic, held_out, drills) = (data.synthetic, data.held_out, data.drills);
        Ok(Self { synthetic, held_out, drills, seed: config.seed, files, inputs: Inputs::fixed(inputs) })
    }

    /// Texts for a tokenizer: those of the first conversations.
    pub fn texts(&self, conversations: usize) -> impl Iterator<Item = String> + Send + '_ {
        let dialogues = (0..self.synthetic).map(|i| Given::from(synth::dialogue(self.seed, Split::Train, i)));
        let all = dialogues.chain(self.files.iter().cloned()).take(conversations);
        all.flat_map(|given| {
            let turns = given.turns.into_iter().flat_map(|(user, assistant)| [user, assistant]);
            given.system.into_iter().chain(turns).collect::<Vec<_>>()
        })
    }

    /// Conversations to fit to and to measure on, as tokens. Of the files, evenly spread ones are held out.
    ///
    /// # Errors
    /// When the chat template or the tokenizer refuses one.
    pub fn examples(&self, renderer: &Renderer, longest: usize) -> Result<(Vec<Example>, Vec<Example>), Failure> {
        let synthetic = |split, n: u64| {
            let one = |i| Given::from(synth::dialogue(self.seed, split, i)).render(renderer, longest);
            (0..n).into_par_iter().map(one).collect::<Result<Vec<_>, RenderError>>()
        };
        let measured = if self.synthetic > 0 { self.held_out } else { 0 };
        let (mut fitted, mut held_out) =
            (synthetic(Split::Train, self.synthetic)?, synthetic(Split::HeldOut, measured)?);
        let wanted = (self.held_out as usize).min(self.files.len() / 10);
        let every = self.files.len().checked_div(wanted).unwrap_or(usize::MAX);
        let rendered = self.files.par_iter().map(|given| given.render(renderer, longest));
        for (i, example) in rendered.collect::<Result<Vec<_>, RenderError>>()?.into_iter().enumerate() {
            if wanted > 0 && i % every == every - 1 { &mut held_out } else { &mut fitted }.push(example);
        }
        if self.drills > 0 {
            let drills = Drills::new(renderer, self.seed)?;
            fitted.extend((0..self.drills).map(|i| drills.drill(i)));
        }
        Ok((fitted, held_out))
    }

    /// Examples of the last steps: dialogues and drills beyond all others.
    ///
    /// # Errors
    /// As of [`Self::examples`].
    pub fn finish(&self, finish: &Finish, renderer: &Renderer, longest: usize) -> Result<Vec<Example>, Failure> {
        let one = |i| {
            let (kinds, share) = (&finish.kinds, finish.share);
            Given::from(synth::dialogue_among(self.seed, Split::Train, i, kinds, share)).render(renderer, longest)
        };
        let dialogues = self.synthetic..self.synthetic + finish.synthetic;
        let mut examples = dialogues.into_par_iter().map(one).collect::<Result<Vec<_>, RenderError>>()?;
        if finish.drills > 0 {
            let drills = Drills::new(renderer, self.seed)?;
            examples.extend((self.drills..self.drills + finish.drills).map(|i| drills.drill(i)));
        }
        Ok(examples)
    }
}
