"""Fitted trees as flat arrays, and rows that reach their leaves and their thresholds."""

import math

import numpy

TRIES = 4  # draws for a leaf before it counts as out of reach: its path may contradict itself
MISSING = math.inf  # in a drawn row, for a missing value
TOGETHER = 128  # rows drawn and followed at once


class Forest:
    """Trees of one table: every node's feature and threshold, its children (-1 for a leaf), and where missing values go."""

    def __init__(self, width, *, rounds):
        self.width = width
        self.rounds = rounds  # whether the original rounds its input to float32 before it compares
        self.feature, self.threshold, self.strict, self.missing_true = [], [], [], []
        self.true, self.false, self.parent = [], [], []
        self.roots, self.members = [], {}

    def add(self, nodes):
        """Adds a tree: a list of None for a leaf or (feature, threshold, strict, true, false, missing goes to true, members).

        Children are places in the list, and the first is the root. `strict` is < instead of <=. With `members`, a set of
        codes, the split asks for membership instead.
        """
        start = len(self.feature)
        self.roots.append(start)
        self.parent += [-1] * len(nodes)
        for place, node in enumerate(nodes, start):
            feature, threshold, strict, true, false, missing, members = node or (0, 0.0, False, -1, -1, False, None)
            if node is not None:
                true, false = true + start, false + start
                self.parent[true] = self.parent[false] = place
            if members is not None:
                self.members[place] = frozenset(int(code) for code in members)
            for column, value in (
                (self.feature, feature), (self.threshold, threshold), (self.strict, strict), (self.true, true),
                (self.false, false), (self.missing_true, missing),
            ):  # fmt: skip
                column.append(value)

    def settle(self):
        """Makes arrays of the lists, and the values of each feature at which some split turns."""
        self.feature, self.true, self.false, self.parent = (
            numpy.asarray(column, numpy.int64) for column in (self.feature, self.true, self.false, self.parent)
        )
        self.threshold = numpy.asarray(self.threshold, numpy.float64)
        self.strict, self.missing_true = numpy.asarray(self.strict, bool), numpy.asarray(self.missing_true, bool)
        self.roots = numpy.asarray(self.roots, numpy.int64)
        self.leaf = self.true < 0
        self.by_members = numpy.zeros(len(self.feature), bool)
        self.by_members[list(self.members)] = True
        numeric = ~self.leaf & ~self.by_members & numpy.isfinite(self.threshold)
        self.numeric = numpy.flatnonzero(numeric)
        self.turns = [[] for _ in range(self.width)]
        for feature in numpy.unique(self.feature[numeric]):
            self.turns[feature] = numpy.unique(self.threshold[numeric & (self.feature == feature)])
        self.codes = {}
        for node, members in self.members.items():
            self.codes.setdefault(int(self.feature[node]), set()).update(members)
        self._tabulate()
        return self

    def _tabulate(self):
        """A table of membership: a row for every split on categories, a column for every code."""
        most = 1 + max((max(members, default=0) for members in self.members.values()), default=0)
        self.row_of = numpy.zeros(len(self.feature), numpy.int64)
        self.table = numpy.zeros((len(self.members) or 1, most + 1), bool)
        for row, (node, members) in enumerate(self.members.items()):
            self.row_of[node] = row
            self.table[row, list(members)] = True

    def follow(self, rows, watch=None):
        """For every row and tree the leaf that it ends in, and whether each row passes its node of `watch`."""
        with numpy.errstate(over="ignore"):
            rows = rows.astype(numpy.float32).astype(numpy.float64) if self.rounds else rows
        at = numpy.repeat(self.roots[None], len(rows), axis=0)
        index = numpy.arange(len(rows))[:, None]
        passed = numpy.zeros(len(rows), bool)
        while True:
            if watch is not None:
                passed |= (at == watch[:, None]).any(axis=1)
            if self.leaf[at].all():
                return at, passed
            value = rows[index, self.feature[at]]
            limit = self.threshold[at]
            with numpy.errstate(invalid="ignore"):
                true = numpy.where(self.strict[at], value < limit, value <= limit)
            if self.members:
                true = numpy.where(self.by_members[at], self._is_member(at, value), true)
            true = numpy.where(numpy.isnan(value), self.missing_true[at], true)
            at = numpy.where(self.leaf[at], at, numpy.where(true, self.true[at], self.false[at]))

    def _is_member(self, at, value):
        last = self.table.shape[1] - 1  # a column that is false for every split
        known = (value >= 0) & (value < last)
        return self.table[self.row_of[at], numpy.where(known, value, last).astype(numpy.int64)]

    def box(self, node):
        """What the path to a node asks for: {feature: (above, up to)} and {feature: (allowed codes or None, other codes)}."""
        spans, sets = {}, {}
        while self.parent[node] >= 0:
            child, node = node, int(self.parent[node])
            feature, true = int(self.feature[node]), child == self.true[node]
            if node in self.members:
                allowed, banned = sets.get(feature, (None, frozenset()))
                members = self.members[node]
                if true:
                    allowed = members if allowed is None else allowed & members
                else:
                    banned = banned | members
                sets[feature] = (allowed, banned)
                continue
            low, high = spans.get(feature, (-math.inf, math.inf))
            limit = float(self.threshold[node])
            spans[feature] = (low, min(high, limit)) if true else (max(low, limit), high)
        return spans, sets

    def draw(self, node, random):
        """A row that reaches the node, or None where its path contradicts itself.

        NaN where the path asks for nothing, and `MISSING` where it asks for a missing value.
        """
        row = numpy.full(self.width, numpy.nan)
        spans, sets = self.box(node)
        for feature, (low, high) in spans.items():
            value = self._between(feature, low, high, random)
            if value is None:
                return None
            row[feature] = value
        for feature, (allowed, banned) in sets.items():
            universe = self.codes[feature] | {1 + max(self.codes[feature])}
            left = sorted((universe if allowed is None else allowed) - banned)
            if not left:
                return None
            row[feature] = left[random.integers(0, len(left))]
        return row

    def _between(self, feature, low, high, random):
        """A number above `low` and up to `high` (where splits are strict, from `low` and below `high`); None if there is none."""
        if math.isinf(low) and low > 0:  # the other side of a split that every number passes
            return MISSING
        turns = self.turns[feature]
        spread = float(turns[-1] - turns[0]) or 1.0
        share = random.random()
        if math.isinf(low):
            return high - (share or 0.5) * spread
        if math.isinf(high):
            return low + (share or 0.5) * spread
        inside = low + share * (high - low)
        if not low < inside < high:  # neighbours: one of the two ends is on the right side
            inside = low if self.strict.any() else high
        held = float(numpy.float32(inside)) if self.rounds else inside
        reached = low <= held < high if self.strict.any() else low < held <= high
        return inside if reached else None

    def filler(self, rows, random):
        """So many rows of values between and beyond the thresholds of each feature, for what a path leaves open."""
        filled = numpy.zeros((rows, self.width))
        for feature, turns in enumerate(self.turns):
            if feature in self.codes:
                filled[:, feature] = random.choice(sorted(self.codes[feature]), rows)
            elif len(turns):
                spread = float(turns[-1] - turns[0]) or 1.0
                ends = numpy.concatenate([[turns[0] - spread], turns, [turns[-1] + spread]])
                place = random.integers(0, len(ends) - 1, rows)
                filled[:, feature] = ends[place] + random.random(rows) * (ends[place + 1] - ends[place])
        return filled


def cover(forest, limit, random, *, there, back):
    """Up to `limit` tables that together visit the leaves, how many leaves there are to reach, and how many are reached.

    `back(rows, filler)` makes of rows for the trees the table that the estimator takes; `there(table)` is the way forward.
    A leaf whose path contradicts itself is not to be reached.
    """
    leaves = random.permutation(numpy.flatnonzero(forest.leaf))
    reached, tries = numpy.zeros(len(forest.feature), bool), numpy.zeros(len(forest.feature), int)
    kept, contradictory = [], 0
    while sum(map(len, kept)) < limit:
        waiting = leaves[~reached[leaves] & (tries[leaves] < TRIES)][:TOGETHER]
        if not len(waiting):
            break
        tries[waiting] += 1
        drawn = [forest.draw(leaf, random) for leaf in waiting]
        out_of_reach = [leaf for leaf, row in zip(waiting, drawn) if row is None and tries[leaf] == TRIES]
        contradictory += len(out_of_reach)
        rows = numpy.array([row for row in drawn if row is not None]).reshape(-1, forest.width)
        if not len(rows):
            continue
        table = back(rows, forest.filler(len(rows), random))
        ends, _ = forest.follow(there(table))
        chosen = []
        for row, visited in enumerate(ends):
            if not reached[visited].all():
                chosen.append(row)
                reached[visited] = True
        kept.append(table.take(chosen[: limit - sum(map(len, kept))]))
    return kept, len(leaves) - contradictory, int(reached[leaves].sum())


def edges(forest, limit, random, *, there, back):
    """Up to `limit` rows that lie on the threshold of a split which they reach: (tables, the column of each row).

    The column is where the table changes when the split's feature does; rows that show none are left out.
    """
    kept, columns = [], []
    splits = random.permutation(forest.numeric)[:limit]
    for start in range(0, len(splits), TOGETHER):
        drawn = [(node, forest.draw(node, random)) for node in splits[start : start + TOGETHER]]
        drawn = [(node, row) for node, row in drawn if row is not None]
        if not drawn:
            continue
        nodes, rows = numpy.array([node for node, _ in drawn]), numpy.array([row for _, row in drawn])
        filler = forest.filler(len(rows), random)
        index, features = numpy.arange(len(nodes)), forest.feature[nodes]
        rows[index, features] = forest.threshold[nodes]
        table = back(rows, filler)
        moved = rows.copy()
        moved[index, features] += 1e-3 * (1 + numpy.abs(forest.threshold[nodes]))
        column = table.first_change(back(moved, filler))
        _, passed = forest.follow(there(table), nodes)
        chosen = numpy.flatnonzero(passed & (column >= 0))
        kept.append(table.take(chosen))
        columns += column[chosen].tolist()
    return kept, columns


def forest_of_trees(trees, width):
    """The forest in trees of scikit-learn (`tree_`), which round their input to float32."""
    forest = Forest(width, rounds=True)
    for tree in trees:
        missing = getattr(tree, "missing_go_to_left", numpy.zeros(tree.node_count))  # none before scikit-learn 1.3
        columns = (tree.feature, tree.threshold, tree.children_left, tree.children_right, missing)
        forest.add([
            None if left < 0 else (int(feature), float(limit), False, int(left), int(right), bool(side), None)
            for feature, limit, left, right, side in zip(*(column.tolist() for column in columns))
        ])  # fmt: skip
    return forest.settle()


def forest_of_histograms(predictors, width, categories):
    """The forest of a histogram gradient boosting of scikit-learn, which compares in float64.

    `categories`: how many codes each of the first features has, which are those of categories.
    """
    forest = Forest(width, rounds=False)
    for predictor in predictors:
        nodes = []
        for node in predictor.nodes:
            members = None
            if node["is_categorical"]:
                bits = predictor.raw_left_cat_bitsets[node["bitset_idx"]]
                members = [
                    32 * word + bit for word in range(len(bits)) for bit in range(32) if int(bits[word]) >> bit & 1
                ]
            nodes.append(
                None if node["is_leaf"] else (
                    int(node["feature_idx"]), float(node["num_threshold"]), False, int(node["left"]), int(node["right"]),
                    bool(node["missing_go_to_left"]), members,
                )
            )  # fmt: skip
        forest.add(nodes)
    forest.settle()
    forest.codes.update({feature: set(range(count)) for feature, count in enumerate(categories)})
    return forest


def forest_of_ensemble(ensemble):
    """The forest in the one form of all boosting libraries; see _ensemble.py."""
    forest = Forest(ensemble.width, rounds=ensemble.rounds)
    trees = {}
    for leaf in ensemble.leaves:
        trees.setdefault(leaf.tree, {})[leaf.node] = None
    for split in ensemble.splits:
        trees.setdefault(split.tree, {})[split.node] = split
    for nodes in trees.values():
        order = {node: place for place, node in enumerate(sorted(nodes))}
        forest.add([_plain(nodes[node], order) for node in order])
    return forest.settle()


def _plain(split, order):
    if split is None:
        return None
    by_members = split.mode == "BRANCH_MEMBER"
    return (
        split.feature, 0.0 if by_members else float(split.value), split.mode == "BRANCH_LT", order[split.true],
        order[split.false], bool(split.missing), split.value if by_members else None,
    )  # fmt: skip
