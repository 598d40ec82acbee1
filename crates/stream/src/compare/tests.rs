//! Comparisons of made-up tuples: what is known to differ does, what is not mostly does not.
