// The whole view: toolbar, picture, panel; panning, zooming, searching, opening and closing.

const OPEN_AT_FIRST = 140, MOST_RESULTS = 60, SMALLEST = 0.02, LARGEST = 4;

function mount(element, data, options) {
  const state = {
    graph: hierarchy(data), view: { x: 0, y: 0, scale: 1 }, selected: null, matches: new Set(), painter: null, painters: new Map(),
    colours: null, toggle: scope => toggle(scope), busy: 0,
  };
  const parts = furnish(element, data, state.graph), { canvas } = parts;
  state.colours = palette(element);
  const layouts = layouter(options.dagre), drawing = drawer(canvas, state);
  const words = panel(parts.details, state, go);
  const measureText = textMeasure(state);
  let wanted = false, turn = 0, order = [];

  for (const overlay of data.overlays) state.painters.set(overlay.name, painter(overlay, state.graph.items));

  function redraw() {
    if (wanted) return;
    wanted = true;
    requestAnimationFrame(() => { wanted = false; drawing.draw(); });
  }

  function resize() {
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(canvas.clientWidth * ratio);
    canvas.height = Math.round(canvas.clientHeight * ratio);
    redraw();
  }

  // Lays out what is not laid out yet, and keeps `held` where it is on the screen.
  async function relayout(held) {
    const mine = ++turn, before = held && state.graph.root.arranged && held.left !== undefined ? toScreen(held.left, held.top) : null;
    const started = layouts.computed(), timer = setTimeout(() => { parts.busy.hidden = false; }, 150);
    element.dataset.busy = "yes";
    await arrange(state.graph.root, measureText, layouts);
    clearTimeout(timer);
    if (mine !== turn) return false;
    parts.busy.hidden = true;
    place(state.graph.root, 0, 0);
    if (before) {
      const after = toScreen(held.left, held.top);
      state.view.x += before.x - after.x; state.view.y += before.y - after.y;
    }
    if (state.painter && state.painter.measure) { state.painter.measure(visible()); legend(); }
    delete element.dataset.busy;
    element.dataset.layouts = String(layouts.computed() - started);
    redraw();
    return true;
  }

  function touched(scope) {
    for (const each of [scope, ...ancestors(scope)]) each.arranged = false;
  }

  async function toggle(scope) {
    scope.open = !scope.open;
    touched(scope);
    await relayout(scope);
    words.show();
  }

  async function every(open) {
    for (const item of state.graph.items) if (item.type === "scope") { item.open = open; item.arranged = false; }
    state.graph.root.arranged = false;
    await relayout();
    fit();
    words.show();
  }

  function visible(scope = state.graph.root) {
    return scope.children.flatMap(child => child.open ? visible(child) : [child]);
  }

  const toScreen = (x, y) => ({ x: x * state.view.scale + state.view.x, y: y * state.view.scale + state.view.y });
  const toWorld = (x, y) => ({ x: (x - state.view.x) / state.view.scale, y: (y - state.view.y) / state.view.scale });

  function fit() {
    const { root } = state.graph, room = 12;
    const across = (canvas.clientWidth - 2 * room) / root.width, down = (canvas.clientHeight - 2 * room) / root.height;
    // A deep graph shown whole would be a thread: rather show its top, readable.
    const scale = Math.min(1.1, Math.max(Math.min(across, down), Math.min(Math.max(across, 0.45), 0.85)));
    const head = root.children[0], middle = across >= scale || !head ? root.width / 2 : head.left + head.width / 2;
    state.view.scale = Math.max(SMALLEST, scale);
    state.view.x = canvas.clientWidth / 2 - middle * state.view.scale;
    state.view.y = Math.max(room, (canvas.clientHeight - root.height * state.view.scale) / 2);
    redraw();
  }

  function whole() {
    const { root } = state.graph;
    const scale = Math.max(SMALLEST, Math.min(1.1, canvas.clientWidth / root.width, canvas.clientHeight / root.height) * 0.97);
    state.view = { scale, x: (canvas.clientWidth - root.width * scale) / 2, y: (canvas.clientHeight - root.height * scale) / 2 };
    redraw();
  }

  function centre(item) {
    const scale = Math.max(state.view.scale, 0.8);
    const height = item.open ? Math.min(item.height, canvas.clientHeight / scale * 0.8) : item.height;
    state.view = { scale, x: canvas.clientWidth / 2 - (item.left + item.width / 2) * scale, y: canvas.clientHeight / 2 - (item.top + height / 2) * scale };
    redraw();
  }

  async function go(item) {
    const closed = ancestors(item).filter(scope => !scope.open);
    for (const scope of closed) scope.open = true;
    if (closed.length) { touched(item.type === "scope" ? item : item.parent); touched(closed[0]); await relayout(); }
    select(item);
    centre(item);
  }

  function select(item) {
    state.selected = item;
    words.show();
    redraw();
  }

  function at(x, y, scope = state.graph.root) {
    const point = toWorld(x, y);
    for (const child of scope.children) {
      if (point.x < child.left || point.y < child.top || point.x > child.left + child.width || point.y > child.top + child.height) continue;
      return child.open && child.height * state.view.scale > CLOSED_BELOW ? at(x, y, child) || child : child;
    }
    return null;
  }

  function zoom(factor, x, y) {
    const { view } = state, scale = Math.max(SMALLEST, Math.min(LARGEST, view.scale * factor));
    view.x = x - (x - view.x) * scale / view.scale;
    view.y = y - (y - view.y) * scale / view.scale;
    view.scale = scale;
    redraw();
  }

  function search(text) {
    const wordsOf = text.toLowerCase().split(/\s+/).filter(Boolean);
    order = wordsOf.length ? state.graph.items.filter(item => wordsOf.every(word => searchable(item, data).includes(word))) : [];
    state.matches = new Set(order.flatMap(item => [item, ...ancestors(item)]));
    parts.count.textContent = wordsOf.length ? order.length + (order.length === 1 ? " match" : " matches") : "";
    parts.results.replaceChildren(...order.slice(0, MOST_RESULTS).map(item => result(item)));
    parts.results.hidden = !order.length;
    redraw();
    return order.length;
  }

  function result(item) {
    const button = make("button", "", make("b", "", title(item)), make("span", "", item.type === "node" ? item.about.name : subtitle(item, null)));
    button.type = "button";
    button.addEventListener("click", () => { parts.results.hidden = true; go(item); });
    return make("li", "", button);
  }

  function overlay(name) {
    state.painter = state.painters.get(name) || null;
    if (state.painter && state.painter.measure) state.painter.measure(visible());
    parts.overlay.value = state.painter ? name : "";
    legend();
    redraw();
  }

  function legend() {
    parts.legend.replaceChildren(...legendOf(state));
  }

  listen(canvas, parts, state, { at, zoom, toggle, select, redraw, whole, search, go, focusSearch: () => parts.search.focus() }, () => order, options);
  parts.overlay.addEventListener("change", () => overlay(parts.overlay.value));
  parts.search.addEventListener("input", () => search(parts.search.value));
  parts.openAll.addEventListener("click", () => every(true));
  parts.closeAll.addEventListener("click", () => every(false));
  parts.fit.addEventListener("click", whole);
  new ResizeObserver(resize).observe(canvas);
  const recolour = () => { state.colours = palette(element); legend(); redraw(); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  // Paper is light whatever the screen is, and it is printed before the next frame.
  const paper = on => { document.documentElement.classList.toggle("paper", on); recolour(); drawing.draw(); };
  window.addEventListener("beforeprint", () => paper(true));
  window.addEventListener("afterprint", () => paper(false));
  matchMedia("print").addEventListener("change", event => paper(event.matches));

  const ready = (async () => {
    openSome(state.graph.root);
    resize();
    overlay(options.overlay || "");
    words.show();
    await relayout();
    fit();
    drawing.draw();
    element.dataset.ready = "yes";
  })();
  return { ready, state, stats: drawing.stats, toggle, every, search, overlay, go, select, fit, whole, redraw, at, layouts };
}

// Scopes are opened from the outside in, as long as there are few boxes to look at.
function openSome(root) {
  const queue = root.children.filter(child => child.type === "scope");
  let shown = root.children.length;
  while (queue.length) {
    const scope = queue.shift();
    if (shown + scope.children.length > OPEN_AT_FIRST) continue;
    scope.open = true;
    shown += scope.children.length;
    queue.push(...scope.children.filter(child => child.type === "scope"));
  }
}

function searchable(item, data) {
  if (item.words === undefined) {
    const about = item.about;
    const parts = item.type === "scope" ? [item.name, item.kind]
      : item.type === "node" ? [about.op, about.name, ...about.outputs.map(number => valueOf(data, number).name), ...about.inputs.filter(number => number !== null && number < 0).map(number => valueOf(data, number).name)]
        : [about.name, item.type];
    item.words = parts.join("\n").toLowerCase();
  }
  return item.words;
}

function textMeasure(state) {
  const context = document.createElement("canvas").getContext("2d"), known = new Map();
  return item => {
    const [head, below] = [title(item), subtitle({ ...item }, { graph: state.graph })], key = item.type + "|" + head + "|" + below;
    if (!known.has(key)) {
      context.font = "600 12px " + state.colours.font;
      const first = context.measureText((item.type === "scope" ? "▸ " : "") + head).width;
      context.font = "11px " + state.colours.font;
      const width = Math.max(first, context.measureText(below).width) + (item.type === "scope" ? 24 : 28);
      known.set(key, [Math.round(Math.max(72, Math.min(220, width))), below ? 42 : 28]);
    }
    return known.get(key);
  };
}

function legendOf(state) {
  const { painter, colours } = state;
  const swatch = (colour, words) => { const mark = make("i", ""); mark.style.background = colour; return make("span", "swatch", mark, words); };
  if (!painter) {
    const kinds = new Set(state.graph.leaves.map(kindOf));
    return Object.keys(KIND_NAMES).filter(kind => kinds.has(kind)).map(kind => swatch(colours.kinds[kind], KIND_NAMES[kind]));
  }
  const { overlay } = painter, note = overlay.note ? [make("p", "", overlay.note)] : [];
  if (overlay.kind === "word") return [...painter.order.map(word => swatch(colours.words[painter.slot(word)], word + " " + painter.counts.get(word))), ...note];
  const bar = make("i", "ramp");
  bar.style.background = "linear-gradient(to right, " + colours.ramp.map(css).join(", ") + ")";
  const low = overlay.combine === "sum" ? 0 : painter.shown.low;
  return [make("span", "scale", quantity(low, overlay.unit), bar, quantity(painter.shown.high, overlay.unit)), ...note];
}

function furnish(element, data, graph) {
  const field = make("input", ""), overlay = make("select", ""), canvas = make("canvas", "");
  field.type = "search"; field.placeholder = "Search nodes"; field.setAttribute("aria-label", "Search nodes");
  overlay.setAttribute("aria-label", "Colour by");
  overlay.append(new Option("Operators", ""), ...data.overlays.map(each => new Option(each.title, each.name)));
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "application");
  canvas.setAttribute("aria-label", "Graph of " + data.model.name + ": " + graph.leaves.length + " nodes. Arrow keys move, plus and minus zoom, slash searches.");
  const plain = words => { const made = make("button", "", words); made.type = "button"; return made; };
  const parts = {
    canvas, overlay, search: field, count: make("output", "count"), openAll: plain("Open all"), closeAll: plain("Close all"), fit: plain("Whole"),
    legend: make("div", "legend"), busy: make("div", "busy", "Laying out…"), results: make("ul", "results"), details: make("aside", "details"),
  };
  parts.busy.hidden = parts.results.hidden = true;
  parts.busy.setAttribute("role", "status");
  const label = make("label", "colour", "Colour by ", overlay);
  element.classList.add("graph");
  element.replaceChildren(
    make("div", "bar", make("div", "finder", field, parts.count, parts.results), label, make("div", "buttons", parts.openAll, parts.closeAll, parts.fit)),
    make("div", "stage", canvas, parts.legend, parts.busy), parts.details,
  );
  return parts;
}
