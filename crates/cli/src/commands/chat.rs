//! `gorgon chat`: a conversation with a model, with or without draft heads.

mod columns;
mod document;
mod editor;
mod remote;
mod render;
mod session;
mod slash;

use crate::args;
use crate::interrupt;
use crate::settings::Settings;
use document::Document;
use editor::{Editor, Typed};
use gorgon_workflows::chat::command::{self, Command, Input};
use gorgon_workflows::chat::{Chat, Options};
use gorgon_workflows::failure::Failure;
use gorgon_workflows::prompts;
use render::Screen;
use session::ChatSession;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub fn run(args: &args::Chat, settings: &Settings) -> Result<ExitCode, Failure> {
    if let Some(url) = &args.url {
        return remote::run(args, url, settings);
    }
    let model = args.model.as_deref().unwrap_or_default();
    let options = Options {
        heads: args.draft.heads.clone(),
        drafter: args.draft.choice(),
        tree: args.draft.tree.clone(),
        accept: args.accept,
        temperature: args.temperature,
        top_p: args.top_p,
        top_k: args.top_k,
        max_new_tokens: args.max_new_tokens as usize,
        seed: settings.seed,
    };
    settings.warn_without_effect(&options.transform()?);
    let prompt = args.prompt.as_deref().map(|prompt| prompts::given(prompt, std::io::stdin())).transpose()?;
    let chat = Chat::open(model, options, args.system.clone(), args.learn.learning().as_ref(), settings)?;
    let document = settings.json.then(|| Document::new(model));
    let stop = Arc::new(AtomicBool::new(false));
    let mut session = ChatSession { chat, screen: Screen::new(settings), document, stop };
    match prompt {
        Some(prompt) => session.message(&prompt)?,
        None => converse(&mut session, settings)?,
    }
    if let Some(document) = session.document {
        document.print(&session.chat);
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads messages and commands until the input ends.
fn converse(session: &mut ChatSession<'_>, settings: &Settings) -> Result<(), Failure> {
    let mut editor = if std::io::stdin().is_terminal() && !settings.json {
        interrupt::stop_answers(&session.stop)?;
        session.screen.say("type a message; /help lists commands, Ctrl-D ends the chat");
        Editor::terminal()?
    } else {
        Editor::lines()
    };
    loop {
        let text = match editor.read()? {
            Typed::Text(text) => text,
            Typed::Interrupted => {
                session.screen.say("Ctrl-D or /exit ends the chat");
                continue;
            }
            Typed::Cleared => continue,
            Typed::End => return Ok(()),
        };
        let outcome = match command::parse(&text) {
            Ok(Input::Empty) => Ok(()),
            Ok(Input::Message(message)) => session.message(&message),
            Ok(Input::Command(Command::Exit)) => return Ok(()),
            Ok(Input::Command(command)) => session.command(command),
            Err(reason) => Err(Failure::input(reason)),
        };
        // Whatever went wrong, the conversation continues.
        if let Err(failure) = outcome {
            session.screen.failed(&failure);
        }
    }
}
