//! What the keys do.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use selvedge::trace::Level;

use super::{App, View, follow};
use crate::table::Key;

/// What the screen cannot do itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Quit,
    Level(Level),
    Pause(bool),
    /// This thread is followed from now on, or none.
    Follow(Option<u64>),
    /// The view of locks is wanted.
    Locks,
}

impl App {
    /// Does what a key asks for.
    pub(crate) fn key(&mut self, mut key: KeyEvent) -> Option<Request> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        // A terminal sends Alt and a key as Escape and the key. If the program reads late, it cannot tell the
        // two apart, and no key here has a meaning with Alt.
        if key.modifiers.contains(KeyModifiers::ALT) {
            key.modifiers.remove(KeyModifiers::ALT);
            self.key(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE));
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return (key.code == KeyCode::Char('c')).then_some(Request::Quit);
        }
        if self.editing {
            self.edit(key.code);
            self.refresh();
            return None;
        }
        let mut request = None;
        match key.code {
            KeyCode::Char('q') => return Some(Request::Quit),
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => {
                self.help = !self.help;
                self.scroll = 0;
            }
            KeyCode::Char(digit @ '1'..='5') => request = self.show(View::ALL[digit as usize - '1' as usize]),
            KeyCode::Tab => request = self.show(View::ALL[(self.view as usize + 1) % 5]),
            KeyCode::BackTab => request = self.show(View::ALL[(self.view as usize + 4) % 5]),
            KeyCode::Down | KeyCode::Char('j') => self.go(1),
            KeyCode::Up | KeyCode::Char('k') => self.go(-1),
            KeyCode::PageDown => self.go(20),
            KeyCode::PageUp => self.go(-20),
            KeyCode::Home | KeyCode::Char('g') => self.go(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.go(isize::MAX),
            KeyCode::Enter | KeyCode::Char('f') => self.follow(),
            KeyCode::Char('s') => {
                if let Some(kind) = self.view.kind() {
                    let sort = &mut self.sorts[self.view as usize];
                    sort.column = (sort.column + 1) % kind.columns.len();
                }
            }
            KeyCode::Char('r') => {
                let sort = &mut self.sorts[self.view as usize];
                sort.reversed = !sort.reversed;
            }
            KeyCode::Char('/') => self.editing = true,
            KeyCode::Char('p' | ' ') => {
                self.paused = !self.paused;
                request = Some(Request::Pause(self.paused));
            }
            KeyCode::Char('+' | '=') => self.zoom = self.zoom.saturating_sub(1),
            KeyCode::Char('-') => self.zoom = (self.zoom + 1).min(follow::WIDEST),
            KeyCode::Char('l') => {
                request = Some(Request::Level(match self.model.level() {
                    Level::Off => Level::Times,
                    Level::Times => Level::Events,
                    _ => Level::Off,
                }));
            }
            KeyCode::Esc => self.back(),
            _ => {}
        }
        self.refresh();
        request
    }

    fn edit(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.editing = false,
            KeyCode::Esc => {
                self.editing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
    }

    fn show(&mut self, view: View) -> Option<Request> {
        self.view = view;
        self.help = false;
        self.scroll = 0;
        self.model.follow(None);
        (view == View::Locks).then_some(Request::Locks)
    }

    fn back(&mut self) {
        if self.help {
            self.help = false;
        } else if self.model.followed.is_some() {
            self.model.follow(None);
        } else {
            self.filter.clear();
        }
        self.scroll = 0;
    }

    /// Moves the selection, or what is scrolled.
    fn go(&mut self, by: isize) {
        if self.help || self.model.followed.is_some() || self.view == View::Mapping {
            self.scroll = self.scroll.saturating_add_signed(by).min(10_000);
            return;
        }
        let to = self.position().saturating_add_signed(by).min(self.rows.len().saturating_sub(1));
        self.selected[self.view as usize] = self.rows.get(to).copied();
    }

    /// Follows the selected thread, or the one on the selected LWP.
    fn follow(&mut self) {
        let followed = match (self.model.followed, self.selected[self.view as usize]) {
            (Some(_), _) => None,
            (None, Some(Key::Thread(id))) => Some(id),
            (None, Some(Key::Own(id))) => Some(id),
            (None, Some(Key::Lwp(runtime, number))) => {
                let mut lwps = self.model.carriers();
                lwps.find(|it| it.runtime.number == runtime && it.number == Some(number))
                    .and_then(|it| it.thread)
            }
            _ => None,
        };
        self.help = false;
        self.scroll = 0;
        self.model.follow(followed);
    }
}
