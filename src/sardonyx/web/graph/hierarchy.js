// The model as boxes in boxes: every scope holds nodes and scopes, and knows the links between what it holds.

// A scope with more parts than this is cut into stretches, so that each layout is small.
const MOST_CHILDREN = 60, SHORTEST = 20, LONGEST = 56;

function hierarchy(data) {
  const root = newScope("", null);
  const scopeOf = data.scopes.map(path => path.reduce(childScope, root));
  const leaves = data.nodes.map((node, index) => node.constant ? null : newLeaf("node", node, index, scopeOf[node.scope]));
  const makers = new Map();
  data.inputs.forEach((value, index) => makers.set(value, newLeaf("input", data.values[value], index - data.inputs.length, root)));
  data.nodes.forEach((node, index) => node.outputs.forEach(value => { if (leaves[index]) makers.set(value, leaves[index]); }));
  data.nodes.forEach((node, index) => feed(node, leaves[index], makers));
  nearTheirReaders(leaves);
  const ends = data.outputs.filter(value => value >= 0)
    .map((value, index) => [value, newLeaf("output", data.values[value], data.nodes.length + index, root)]);
  tidy(root);
  const graph = { root, leaves: leaves.filter(Boolean), makers, readers: new Map(), items: [], data };
  collect(root, graph.items);
  data.nodes.forEach((node, index) => {
    for (const value of [...node.inputs, ...(node.results || [])]) connect(graph, value, leaves[index]);
  });
  for (const [value, leaf] of ends) connect(graph, value, leaf);
  return graph;
}

// Which leaves read what a leaf makes.
function feed(node, leaf, makers) {
  for (const value of [...node.inputs, ...(node.results || [])]) {
    const maker = makers.get(value);
    if (!leaf || !maker || maker === leaf) continue;
    maker.readers.push(leaf);
    if (maker.type === "input") leaf.fed = true;
  }
}

// What is made of weights alone may stand anywhere in the file. It belongs where it is needed.
function nearTheirReaders(leaves) {
  for (const leaf of leaves) if (leaf && leaf.fed) for (const reader of leaf.readers) reader.fed = true;
  for (let index = leaves.length - 1; index >= 0; index -= 1) {
    const leaf = leaves[index];
    if (!leaf || leaf.fed || !leaf.readers.length) continue;
    leaf.first = Math.min(...leaf.readers.map(reader => reader.first)) - 0.5 + index / leaves.length / 4;
  }
}

function newScope(label, parent) {
  const [name, kind] = label.split(/: (.*)/s);
  return { type: "scope", name, kind: kind || "", parent, children: [], byName: new Map(), links: new Map(), open: !parent, count: 0, first: Infinity };
}

function childScope(parent, label) {
  if (!parent.byName.has(label)) {
    const made = newScope(label, parent);
    parent.byName.set(label, made);
    parent.children.push(made);
  }
  return parent.byName.get(label);
}

function newLeaf(type, about, index, parent) {
  const leaf = { type, index, about, parent, first: index, count: 1, readers: [] };
  parent.children.push(leaf);
  return leaf;
}

// Counts, order, and no box around a single thing.
function tidy(scope) {
  scope.children.forEach(child => child.type === "scope" && tidy(child));
  scope.children = scope.children.filter(child => child.count > 0).map(alone);
  scope.children.sort((one, two) => one.first - two.first);
  while (scope.children.length > MOST_CHILDREN + ends(scope)) scope.children = stretches(scope);
  scope.children.forEach(child => { child.parent = scope; });
  scope.count = scope.children.reduce((sum, child) => sum + child.count, 0);
  scope.first = Math.min(...scope.children.map(child => child.first));
}

const ends = scope => scope.children.filter(child => child.type === "input" || child.type === "output").length;

function alone(child) {
  if (child.type !== "scope" || child.children.length !== 1) return child;
  const [only] = child.children;
  if (only.type === "scope") {
    only.name = only.stretch ? child.name : child.name + " / " + only.name;
    only.kind = only.kind || child.kind;
  } else {
    only.place = child.name;
  }
  return only;
}

// Inputs and outputs of the model stay outside, at its ends.
function stretches(scope) {
  const inner = scope.children.filter(child => child.type === "node" || child.type === "scope");
  const outer = scope.children.filter(child => child.type === "input" || child.type === "output");
  const crossing = crossings(inner), parts = [];
  for (let start = 0; start < inner.length;) {
    const end = cut(crossing, start, inner.length);
    parts.push(stretch(scope, inner.slice(start, end)));
    start = end;
  }
  parts.forEach((part, index) => { part.name = "part " + (index + 1) + " of " + parts.length; });
  return [...parts, ...outer].sort((one, two) => one.first - two.first);
}

// How many makers before each place are still read after it.
function crossings(children) {
  const places = new Map(), change = new Array(children.length + 1).fill(0);
  children.forEach((child, place) => { for (const leaf of leavesOf(child)) places.set(leaf, place); });
  for (const [leaf, place] of places) {
    const last = Math.max(place, ...leaf.readers.map(reader => places.get(reader) ?? place));
    change[place + 1] += 1;
    change[last + 1 > children.length ? children.length : last + 1] -= 1;
  }
  let open = 0;
  return change.map(step => { open += step; return open; });
}

// The best place to end a stretch: where the fewest values pass.
function cut(crossing, start, length) {
  if (length - start <= LONGEST) return length;
  let best = start + SHORTEST;
  for (let place = best; place <= Math.min(start + LONGEST, length - SHORTEST); place += 1) if (crossing[place] <= crossing[best]) best = place;
  return best;
}

function stretch(scope, children) {
  const made = newScope("", scope), counts = new Map();
  children.forEach(child => { child.parent = made; });
  Object.assign(made, { stretch: true, open: false, children, count: children.reduce((sum, child) => sum + child.count, 0), first: children.length ? children[0].first : Infinity });
  for (const leaf of leavesOf(made)) counts.set(leaf.about.op, (counts.get(leaf.about.op) || 0) + 1);
  made.kind = [...counts].sort((one, two) => two[1] - one[1]).slice(0, 2).map(([op]) => op).join(", ");
  return made;
}

function collect(scope, items) {
  scope.children.forEach((child, order) => {
    child.order = order;
    child.id = items.push(child) - 1;
    if (child.type === "scope") collect(child, items);
  });
}

// A value that goes from one leaf to another is a link in the scope that holds both, and passes the borders in between.
function connect(graph, value, reader) {
  const maker = graph.makers.get(value);
  if (!maker || !reader || maker === reader) return;
  if (!graph.readers.has(value)) graph.readers.set(value, []);
  graph.readers.get(value).push(reader);
  const above = new Set(ancestors(maker));
  let down = reader;
  while (!above.has(down.parent)) { link(down.parent, null, down, value); down = down.parent; }
  let up = maker;
  while (up.parent !== down.parent) { link(up.parent, up, null, value); up = up.parent; }
  if (up !== down) link(down.parent, up, down, value);
}

function link(scope, from, to, value) {
  const key = (from ? from.id : "in") + ">" + (to ? to.id : "out");
  const known = scope.links.get(key);
  if (known) known.values.add(value);
  else scope.links.set(key, { from, to, values: new Set([value]) });
}

function ancestors(item) {
  const found = [];
  for (let scope = item.parent; scope; scope = scope.parent) found.push(scope);
  return found;
}

function* leavesOf(item) {
  if (item.type !== "scope") { yield item; return; }
  for (const child of item.children) yield* leavesOf(child);
}
