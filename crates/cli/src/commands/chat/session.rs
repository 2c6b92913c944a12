//! Messages and commands of a chat, and what they show.

use super::document::Document;
use super::render::Screen;
use gorgon_workflows::chat::command::{Command, HELP};
use gorgon_workflows::chat::{Chat, Watch};
use gorgon_workflows::failure::Failure;
use gorgon_workflows::units::of;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A chat and where it is shown.
pub struct ChatSession<'a> {
    pub chat: Chat<'a>,
    pub screen: Screen<'a>,
    pub document: Option<Document>,
    /// Set by Ctrl-C while an answer is made.
    pub stop: Arc<AtomicBool>,
}

impl ChatSession<'_> {
    /// Sends a message and shows its answer.
    pub fn message(&mut self, message: &str) -> Result<(), Failure> {
        self.answer(Some(message))
    }

    /// Answers a message, or the last one anew.
    fn answer(&mut self, message: Option<&str>) -> Result<(), Failure> {
        self.stop.store(false, Ordering::Relaxed);
        let left_out = self.chat.conversation().left_out();
        let mut show = |piece: &_| self.screen.piece(piece);
        let watch = &mut Watch { show: &mut show, stop: &self.stop };
        let answer = match message {
            Some(message) => self.chat.send(message, watch),
            None => self.chat.retry(watch),
        };
        if let Some(document) = &mut self.document {
            document.add(message, &answer);
        }
        self.screen.answered(&answer?, left_out);
        Ok(())
    }

    /// Does what a command says.
    pub fn command(&mut self, command: Command) -> Result<(), Failure> {
        let (chat, screen) = (&mut self.chat, &self.screen);
        match command {
            Command::Help => screen.say(HELP),
            Command::Settings => screen.settings(chat),
            Command::Set(setting) => {
                chat.set(setting)?;
                screen.settings(chat);
            }
            Command::System(system) => {
                screen.say(if system.is_some() { "system message set" } else { "system message removed" });
                chat.set_system(system);
            }
            Command::Save(path) => {
                chat.save(&path)?;
                screen.say(format!(
                    "{}: {} written",
                    path.display(),
                    of(chat.conversation().exchanges().len(), "answer")
                ));
            }
            Command::Load(path) => {
                let answers = chat.load(&path)?;
                screen.say(format!(
                    "{}: {} read; the next message goes on from there",
                    path.display(),
                    of(answers, "answer")
                ));
            }
            Command::Reset => {
                chat.reset();
                screen.say("the conversation is forgotten");
            }
            Command::Retry => return self.answer(None),
            Command::Compare(message) => return self.compare(message.as_deref()),
            Command::Stats => screen.say(chat.totals()),
            Command::Exit => {}
        }
        Ok(())
    }

    fn compare(&mut self, message: Option<&str>) -> Result<(), Failure> {
        self.stop.store(false, Ordering::Relaxed);
        let comparison = self.chat.compare(message, &self.stop)?;
        self.screen.compared(&comparison);
        if let Some(document) = &mut self.document {
            document.compared(message, &comparison);
        }
        Ok(())
    }
}
