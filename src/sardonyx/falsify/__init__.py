"""falsify: a seeded search for inputs on which an original and its export differ."""
