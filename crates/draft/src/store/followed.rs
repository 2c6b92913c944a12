//! A store as a text in which tokens are looked up.

use super::{Match, Store};
use crate::growth::{Followed, Follower};

impl Followed for &Store {
    type Place = Match;

    fn followers(&mut self, place: Match, found: &mut Vec<Follower<Match>>) -> usize {
        self.frequent_followers(place, &mut |token, run| {
            found.push(Follower { token, count: run.count(), rank: 0, place: run });
        });
        place.count()
    }
}
