//! A box without others. What is left for a rule when those above it have taken theirs would be thousands of boxes; here it is two lines,
//! and is only looked into when a packet of it is needed.

use super::cube::Cube;

/// See the module's text. It may turn out to be empty: [`Region::find`] knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Region {
    /// The box.
    pub cube: Cube,
    /// What is not in it.
    except: Vec<Cube>,
}

impl From<Cube> for Region {
    fn from(cube: Cube) -> Region {
        Region { cube, except: Vec::new() }
    }
}

impl Region {
    /// What is in a box, too; `None`: nothing.
    #[must_use]
    pub fn and(&self, other: &Cube) -> Option<Region> {
        let cube = self.cube.and(other)?;
        let except: Vec<Cube> =
            self.except.iter().filter(|taken| taken.and(&cube).is_some()).copied().collect();
        (!except.iter().any(|taken| taken.contains(&cube))).then_some(Region { cube, except })
    }

    /// What is not in a box; `None`: nothing.
    #[must_use]
    pub fn without(&self, other: &Cube) -> Option<Region> {
        if other.and(&self.cube).is_none() {
            return Some(self.clone());
        }
        let mut rest = self.clone();
        rest.except.push(*other);
        (!other.contains(&self.cube)).then_some(rest)
    }

    /// What is in none of these; `None`: nothing.
    #[must_use]
    pub fn without_all<'a>(&self, others: impl IntoIterator<Item = &'a Cube>) -> Option<Region> {
        others.into_iter().try_fold(self.clone(), |rest, other| rest.without(other))
    }

    /// Some packets of it that are in one of these boxes, as a box; `None`: there are none.
    #[must_use]
    pub fn find(&self, among: &[Cube]) -> Option<Cube> {
        among.iter().filter_map(|cube| self.cube.and(cube)).find_map(|cube| first(cube, &self.except))
    }
}

/// Some packets of a box that are in none of these.
fn first(cube: Cube, except: &[Cube]) -> Option<Cube> {
    let Some(at) = except.iter().position(|taken| taken.and(&cube).is_some()) else { return Some(cube) };
    cube.without(&except[at]).into_iter().find_map(|piece| first(piece, &except[at + 1..]))
}
