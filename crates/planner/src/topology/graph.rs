//! A fat tree as an explicit graph with breadth-first search: a simple reference for the arithmetic.

use std::collections::VecDeque;

use super::way::LinkClass;

/// Nodes are hosts, then edge, aggregation, and core switches.
pub(crate) struct TreeGraph {
    links: Vec<Vec<(usize, LinkClass)>>,
}

impl TreeGraph {
    pub(crate) fn fat_tree(k: usize) -> TreeGraph {
        let half = k / 2;
        let hosts = k * half * half;
        let switches = k * half;
        let edge = hosts;
        let aggregation = hosts + switches;
        let core = hosts + 2 * switches;
        let mut graph = TreeGraph {
            links: vec![Vec::new(); core + half * half],
        };
        for pod in 0..k {
            for i in 0..half {
                for j in 0..half {
                    let e = edge + pod * half + i;
                    let a = aggregation + pod * half + i;
                    graph.join((pod * half + i) * half + j, e, LinkClass::Access);
                    graph.join(e, aggregation + pod * half + j, LinkClass::Aggregation);
                    graph.join(a, core + i * half + j, LinkClass::Core);
                }
            }
        }
        graph
    }

    fn join(&mut self, a: usize, b: usize, class: LinkClass) {
        self.links[a].push((b, class));
        self.links[b].push((a, class));
    }

    /// The link classes of a shortest path.
    pub(crate) fn way(&self, from: usize, to: usize) -> Vec<LinkClass> {
        let mut came: Vec<Option<(usize, LinkClass)>> = vec![None; self.links.len()];
        let mut queue = VecDeque::from([from]);
        while let Some(at) = queue.pop_front() {
            for (next, class) in &self.links[at] {
                if *next != from && came[*next].is_none() {
                    came[*next] = Some((at, *class));
                    queue.push_back(*next);
                }
            }
        }
        let mut way = Vec::new();
        let mut at = to;
        while at != from {
            let (before, class) = came[at].expect("the tree hangs together");
            way.push(class);
            at = before;
        }
        way
    }
}
