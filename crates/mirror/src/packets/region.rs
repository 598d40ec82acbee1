//! A box minus other boxes. The packets left for a rule below others would be thousands of boxes; this form is small,
//! and is only searched when a packet of it is needed.

use super::cube::PacketCube;

/// See the module documentation. It may be empty; [`PacketRegion::find`] decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketRegion {
    /// Box.
    pub cube: PacketCube,
    /// Excluded boxes.
    except: Vec<PacketCube>,
}

impl From<PacketCube> for PacketRegion {
    fn from(cube: PacketCube) -> PacketRegion {
        PacketRegion {
            cube,
            except: Vec::new(),
        }
    }
}

impl PacketRegion {
    /// Intersection with a box; `None`: empty.
    #[must_use]
    pub fn and(&self, other: &PacketCube) -> Option<PacketRegion> {
        let cube = self.cube.and(other)?;
        let except: Vec<PacketCube> = self
            .except
            .iter()
            .filter(|taken| taken.and(&cube).is_some())
            .copied()
            .collect();
        (!except.iter().any(|taken| taken.contains(&cube))).then_some(PacketRegion { cube, except })
    }

    /// Difference to a box; `None`: empty.
    #[must_use]
    pub fn without(&self, other: &PacketCube) -> Option<PacketRegion> {
        if other.and(&self.cube).is_none() {
            return Some(self.clone());
        }
        let mut rest = self.clone();
        rest.except.push(*other);
        (!other.contains(&self.cube)).then_some(rest)
    }

    /// Difference to these boxes; `None`: empty.
    #[must_use]
    pub fn without_all<'a>(
        &self,
        others: impl IntoIterator<Item = &'a PacketCube>,
    ) -> Option<PacketRegion> {
        others
            .into_iter()
            .try_fold(self.clone(), |rest, other| rest.without(other))
    }

    /// A box of the region's packets in one of these boxes; `None`: no packet.
    #[must_use]
    pub fn find(&self, among: &[PacketCube]) -> Option<PacketCube> {
        among
            .iter()
            .filter_map(|cube| self.cube.and(cube))
            .find_map(|cube| first(cube, &self.except))
    }
}

/// A box of packets that are in none of these boxes.
fn first(cube: PacketCube, except: &[PacketCube]) -> Option<PacketCube> {
    let Some(at) = except.iter().position(|taken| taken.and(&cube).is_some()) else {
        return Some(cube);
    };
    cube.without(&except[at])
        .into_iter()
        .find_map(|piece| first(piece, &except[at + 1..]))
}
