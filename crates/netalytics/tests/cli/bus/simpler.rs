//! Minimization of differing queries.

use super::questions::{OF_VALUES, Processor, Question};

impl Question {
    /// Queries with one part removed.
    pub fn simpler(&self) -> Vec<Question> {
        let mut all = Vec::new();
        if self.processors.len() > 1 {
            all.extend(self.processors.iter().map(|one| Question {
                processors: vec![one.clone()],
                ..self.clone()
            }));
        }
        for place in 0..self.filter.len() {
            let mut less = self.clone();
            less.filter.remove(place);
            all.push(less);
        }
        for place in 0..self.clauses.len() {
            let mut less = self.clone();
            less.clauses.remove(place);
            all.push(less);
        }
        if let [processor] = &self.processors[..] {
            let processors = processor.simpler().into_iter();
            all.extend(processors.map(|one| Question {
                processors: vec![one],
                ..self.clone()
            }));
        }
        all
    }
}

impl Processor {
    fn simpler(&self) -> Vec<Processor> {
        let mut all = Vec::new();
        let mut without = |change: &dyn Fn(&mut Processor)| {
            let mut less = self.clone();
            change(&mut less);
            if less.text() != self.text() {
                all.push(less);
            }
        };
        without(&|p| p.limit = None);
        without(&|p| p.order = None);
        without(&|p| p.having = None);
        without(&|p| p.rank = None);
        without(&|p| p.window = None);
        without(&|p| p.window = p.window.map(|(size, _)| (size, size)));
        without(&|p| p.values.truncate(1));
        for place in 0..self.group.len() {
            without(&|p| drop(p.group.remove(place)));
        }
        for (place, aggregate) in self.aggregates.iter().enumerate() {
            without(&|p| {
                p.aggregates.remove(place);
                match *aggregate {
                    "ratio" => p.of = None,
                    "quantile" => p.quantiles.clear(),
                    _ => {}
                }
                if !p.aggregates.iter().any(|one| OF_VALUES.contains(one)) {
                    p.values.clear();
                }
            });
        }
        all
    }
}
