// Where the boxes go. Each open scope is laid out by dagre on its own, in a worker, and equal scopes share one layout.

const PADDING = 12, HEADER = 26, PORT = 6;

// Runs in the worker too, so it uses nothing but its arguments.
function layoutScope(dagre, task) {
  const graph = new dagre.graphlib.Graph({ multigraph: true });
  graph.setGraph({ nodesep: 22, ranksep: 20, edgesep: 12, ranker: task.sizes.length > 40 ? "longest-path" : "network-simplex" });
  graph.setDefaultEdgeLabel(() => ({}));
  task.sizes.forEach(([width, height], index) => graph.setNode(String(index), { width, height }));
  task.links.forEach(([from, to], index) => graph.setEdge(String(from), String(to), { weight: from < 0 || to < 0 ? 0 : 1 }, String(index)));
  dagre.layout(graph);
  const whole = graph.graph();
  return {
    width: whole.width || 0, height: whole.height || 0,
    places: task.sizes.map((_, index) => { const node = graph.node(String(index)); return [node.x, node.y]; }),
    paths: task.links.map(([from, to], index) => graph.edge(String(from), String(to), String(index)).points.map(point => [point.x, point.y])),
  };
}

function layouter(dagreSource) {
  const known = new Map(), waiting = new Map();
  let worker = null, count = 0, here = null;
  try {
    const text = dagreSource + ";" + layoutScope + ";onmessage = event => postMessage({ id: event.data.id, layout: layoutScope(dagre, event.data.task) });";
    worker = new Worker(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
    worker.onmessage = event => { waiting.get(event.data.id)(event.data.layout); waiting.delete(event.data.id); };
  } catch { // a browser that allows no worker in a file: the layouts are small enough to be done here
    here = new Function(dagreSource + "; return dagre;")();
  }
  return {
    computed: () => count,
    run(task) {
      const key = JSON.stringify(task);
      if (!known.has(key)) {
        const id = ++count;
        known.set(key, here
          ? new Promise(done => setTimeout(() => done(layoutScope(here, task))))
          : new Promise(done => { waiting.set(id, done); worker.postMessage({ id, task }); }));
      }
      return known.get(key);
    },
  };
}

// Gives every item below an open scope its size, and its place relative to the scope.
async function arrange(scope, sizes, layouts) {
  await Promise.all(scope.children.filter(child => child.open && !child.arranged).map(child => arrange(child, sizes, layouts)));
  const boxes = scope.children.map(child => child.open ? [child.width, child.height] : sizes(child));
  const links = [...scope.links.values()];
  const enters = links.some(found => !found.from), leaves = links.some(found => !found.to);
  const enter = boxes.length, leave = boxes.length + (enters ? 1 : 0);
  const ports = [...(enters ? [[PORT, PORT]] : []), ...(leaves ? [[PORT, PORT]] : [])];
  const ends = links.map(found => [found.from ? found.from.order : enter, found.to ? found.to.order : leave]);
  const found = await layouts.run({ sizes: [...boxes, ...ports], links: ends });
  const top = scope.parent ? HEADER + PADDING : PADDING;
  scope.width = Math.max(found.width + 2 * PADDING, scope.parent ? sizes(scope)[0] : 0);
  scope.height = found.height + top + PADDING;
  const left = (scope.width - found.width) / 2;
  scope.children.forEach((child, index) => {
    [child.width, child.height] = boxes[index];
    child.x = left + found.places[index][0] - child.width / 2;
    child.y = top + found.places[index][1] - child.height / 2;
  });
  scope.enter = enters ? left + found.places[enter][0] : scope.width / 2;
  scope.leave = leaves ? left + found.places[leave][0] : scope.width / 2;
  scope.drawn = links.map((each, index) => path(scope, each, found.paths[index].map(([x, y]) => [x + left, y + top])));
  scope.arranged = true;
}

// The line of a link. At an open scope it ends where the lines inside begin.
function path(scope, found, points) {
  const { from, to } = found;
  if (!from) points[0] = [scope.enter, HEADER];
  else if (from.open) points[0] = [from.x + from.leave, from.y + from.height];
  if (!to) points[points.length - 1] = [scope.leave, scope.height];
  else if (to.open) points[points.length - 1] = [to.x + to.enter, to.y + HEADER];
  const [start, end] = [points[0], points[points.length - 1]];
  if (end[1] < start[1]) points = roundTheSide(scope, start, end);
  const xs = points.map(point => point[0]), ys = points.map(point => point[1]);
  return { link: found, points, left: Math.min(...xs), right: Math.max(...xs), top: Math.min(...ys), bottom: Math.max(...ys) };
}

// Scopes may feed each other both ways. A line that goes back up runs beside the boxes, not through them.
function roundTheSide(scope, start, end) {
  const side = Math.max(...scope.children.map(child => child.x + child.width)) + PADDING / 2;
  return [start, [start[0], start[1] + PADDING], [side, start[1] + PADDING], [side, end[1] - PADDING], [end[0], end[1] - PADDING], end];
}

// From places inside scopes to places in the whole picture.
function place(scope, x, y) {
  scope.left = x; scope.top = y;
  for (const child of scope.children) {
    if (child.open) place(child, x + child.x, y + child.y);
    else { child.left = x + child.x; child.top = y + child.y; }
  }
}
