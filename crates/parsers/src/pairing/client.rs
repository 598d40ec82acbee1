//! How this client behaves: whether it asks again only when it has been answered.

/// So often has a client to ask again just when all was answered, with nothing missing, before it counts as one that waits.
const TURNS_MIN: u8 = 2;
/// So many rounds in turn, in which messages are missing, have to fit for the same.
const FITS_MIN: u8 = 3;

/// What the client has been seen to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conduct {
    /// Too little was seen.
    #[default]
    Unknown,
    /// It asks (one or several things) only when everything it asked before has been answered.
    AsksWhenAnswered,
    /// It has asked while only a part of what it had asked was answered: there are no rounds.
    AsksAnyTime,
}

/// The model of one client.
#[derive(Clone, Copy, Debug, Default)]
pub struct Client {
    conduct: Conduct,
    /// How often it asked again when all was answered, with nothing missing.
    turns: u8,
    /// The last so many damaged rounds can have been rounds.
    fits: u8,
    /// It has asked several things in one round.
    batches: bool,
}

impl Client {
    /// Of a protocol whose clients have to wait.
    pub fn that_waits() -> Client {
        Client { conduct: Conduct::AsksWhenAnswered, ..Client::default() }
    }

    #[inline]
    pub fn conduct(&self) -> Conduct {
        self.conduct
    }

    /// Asks one thing at a time, as far as was seen.
    pub fn asks_singly(&self) -> bool {
        !self.batches && self.conduct != Conduct::AsksAnyTime
    }

    /// A round had more than one request.
    #[inline]
    pub fn asked_several(&mut self) {
        self.batches = true;
    }

    /// It asked again when all had been answered, with nothing missing.
    #[inline]
    pub fn asked_when_answered(&mut self) {
        self.turns = self.turns.saturating_add(1);
        if self.turns >= TURNS_MIN && self.conduct == Conduct::Unknown {
            self.conduct = Conduct::AsksWhenAnswered;
        }
    }

    /// It asked again although something was not answered, with nothing missing.
    #[inline]
    pub fn asked_unanswered(&mut self) {
        self.conduct = Conduct::AsksAnyTime;
    }

    /// A round in which messages are missing is over; `fitted`: as many responses as requests can have been in it. One that does
    /// not fit shows that the client may not wait after all: it has to be seen to do so again.
    pub fn ended_round(&mut self, fitted: bool) {
        self.fits = if fitted { self.fits.saturating_add(1) } else { 0 };
        self.conduct = match self.conduct {
            Conduct::Unknown if self.fits >= FITS_MIN => Conduct::AsksWhenAnswered,
            Conduct::AsksWhenAnswered if !fitted => {
                self.turns = 0;
                Conduct::Unknown
            }
            conduct => conduct,
        };
    }
}
