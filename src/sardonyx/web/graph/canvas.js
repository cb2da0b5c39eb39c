// Drawing. Only what is in the window is drawn, and nothing smaller than a few points is drawn in detail.

const CLOSED_BELOW = 16, TEXT_FROM = 0.42, RADIUS = 5;

function drawer(canvas, state) {
  const context = canvas.getContext("2d");
  const stats = { frames: 0, visited: 0, boxes: 0, links: 0, texts: 0 };

  function draw() {
    const { view } = state, ratio = canvas.width / canvas.clientWidth || 1;
    const window_ = { left: -view.x / view.scale, top: -view.y / view.scale };
    window_.right = window_.left + canvas.clientWidth / view.scale;
    window_.bottom = window_.top + canvas.clientHeight / view.scale;
    stats.frames += 1; stats.visited = stats.boxes = stats.links = stats.texts = 0;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.setTransform(view.scale * ratio, 0, 0, view.scale * ratio, view.x * ratio, view.y * ratio);
    if (state.graph.root.arranged) scopeInside(state.graph.root, window_);
  }

  function scopeInside(scope, seen) {
    lines(scope, seen);
    for (const child of scope.children) {
      stats.visited += 1;
      if (child.left > seen.right || child.top > seen.bottom || child.left + child.width < seen.left || child.top + child.height < seen.top) continue;
      stats.boxes += 1;
      if (child.open && child.height * state.view.scale > CLOSED_BELOW) { frame(child); scopeInside(child, seen); } else box(child);
    }
  }

  function lines(scope, seen) {
    const { colours, view } = state, x = scope.left, y = scope.top;
    const near = [];
    context.beginPath();
    for (const found of scope.drawn) {
      if (x + found.left > seen.right || y + found.top > seen.bottom || x + found.right < seen.left || y + found.bottom < seen.top) continue;
      stats.links += 1;
      if (touches(found.link, state.selected)) near.push(found);
      else trace(found.points, x, y);
    }
    context.strokeStyle = colours.edge;
    context.lineWidth = Math.max(1, 0.6 / view.scale);
    context.stroke();
    if (view.scale > 0.25) heads(scope, seen, colours.edge);
    if (!near.length) return;
    context.beginPath();
    near.forEach(found => trace(found.points, x, y));
    context.strokeStyle = colours.accent;
    context.lineWidth = Math.max(2, 1.4 / view.scale);
    context.stroke();
  }

  function trace(points, x, y) {
    context.moveTo(x + points[0][0], y + points[0][1]);
    for (let index = 1; index < points.length - 1; index += 1) {
      const [px, py] = points[index], [nx, ny] = points[index + 1], last = index === points.length - 2;
      context.quadraticCurveTo(x + px, y + py, x + (last ? nx : (px + nx) / 2), y + (last ? ny : (py + ny) / 2));
    }
    if (points.length === 2) context.lineTo(x + points[1][0], y + points[1][1]);
  }

  function heads(scope, seen, colour) {
    context.beginPath();
    for (const { points, link: { to } } of scope.drawn) {
      if (!to || to.open) continue;
      const [x, y] = points[points.length - 1], px = scope.left + x, py = scope.top + y;
      if (px < seen.left || px > seen.right || py < seen.top || py > seen.bottom) continue;
      const before = points[points.length - 2], angle = Math.atan2(y - before[1], x - before[0]);
      context.moveTo(px, py);
      context.lineTo(px - 6 * Math.cos(angle - 0.45), py - 6 * Math.sin(angle - 0.45));
      context.lineTo(px - 6 * Math.cos(angle + 0.45), py - 6 * Math.sin(angle + 0.45));
    }
    context.fillStyle = colour;
    context.fill();
  }

  function frame(item) {
    const { colours } = state;
    shape(item, colours.scopeOpen, item === state.selected ? colours.accent : colours.line, item === state.selected ? 2 : 1);
    if (state.view.scale < TEXT_FROM / 2) return;
    text("▾ " + title(item) + (item.kind ? "  " + item.kind : ""), item.left + 10, item.top + 17, colours.soft, "600 12px", item.width - 20);
  }

  function box(item) {
    const { colours, painter } = state, picked = item === state.selected, matched = state.matches.has(item);
    const end = item.type === "input" || item.type === "output";
    const painted = painter && !end ? paint(item) : null;
    const fill = end ? colours.kinds[item.type] : painted ? painted.fill : item.type === "scope" ? colours.scope : colours.card;
    shape(item, fill, picked ? colours.accent : matched ? colours.mark : colours.line, picked || matched ? 2.5 : 1);
    if (item.type === "scope" && painted && painted.parts) stripe(item, painted.parts);
    if (!painter && item.type === "node") {
      context.fillStyle = colours.kinds[kindOf(item)];
      context.beginPath();
      context.roundRect(item.left, item.top, 5, item.height, [RADIUS, 0, 0, RADIUS]);
      context.fill();
    }
    if (state.view.scale < TEXT_FROM) return;
    const ink = end ? colours.paper : painted ? painted.ink : colours.ink, soft = end ? colours.paper : painted ? painted.ink : colours.soft;
    const left = item.left + (item.type === "scope" ? 10 : 13), room = item.width - 20;
    text((item.type === "scope" ? "▸ " : "") + title(item), left, item.top + 17, ink, "600 12px", room);
    text(subtitle(item, state), left, item.top + 33, soft, "11px", room);
  }

  function paint(item) {
    const { colours, painter } = state, value = painter.value(item);
    if (value === undefined) return { fill: colours.none, ink: colours.soft };
    if (painter.overlay.kind === "word") {
      const fill = colours.words[painter.slot(value[0][0])];
      return { fill, ink: readable(rgb(fill)), parts: value.length > 1 ? value : null };
    }
    const colour = ramp(colours.ramp, painter.share(value));
    return { fill: css(colour), ink: readable(colour) };
  }

  function stripe(item, parts) {
    const whole = parts.reduce((sum, [, count]) => sum + count, 0);
    let left = item.left + 4;
    for (const [word, count] of parts) {
      const width = (item.width - 8) * count / whole;
      context.fillStyle = state.colours.words[state.painter.slot(word)];
      context.fillRect(left, item.top + item.height - 6, width, 3);
      context.strokeStyle = state.colours.line;
      context.lineWidth = 0.5;
      context.strokeRect(left, item.top + item.height - 6, width, 3);
      left += width;
    }
  }

  function shape(item, fill, stroke, width) {
    context.beginPath();
    if (state.view.scale < 0.2) context.rect(item.left, item.top, item.width, item.height);
    else context.roundRect(item.left, item.top, item.width, item.height, item.type === "input" || item.type === "output" ? item.height / 2 : RADIUS);
    context.fillStyle = fill;
    context.fill();
    context.strokeStyle = stroke;
    context.lineWidth = width / Math.min(1, state.view.scale * 1.5);
    context.stroke();
  }

  function text(words, x, y, colour, font, room) {
    stats.texts += 1;
    context.font = font + " " + state.colours.font;
    context.fillStyle = colour;
    context.fillText(fitted(context, words, room), x, y);
  }

  return { draw, stats };
}

const touches = (link, item) => item && (link.from === item || link.to === item);

function title(item) {
  if (item.type === "scope") return item.name;
  return item.type === "node" ? item.about.op : item.about.name;
}

function subtitle(item, state) {
  const painter = state && state.painter;
  if (painter && painter.overlay.kind === "number") {
    const value = painter.value(item);
    if (value !== undefined) return quantity(value, painter.overlay.unit);
  }
  if (item.type === "scope") return (item.kind ? item.kind + " · " : "") + item.count + " nodes";
  if (item.type !== "node") return item.type + " · " + shapeText(item.about.shape);
  return item.place || (state && item.about.outputs.length ? shapeText(valueOf(state.graph.data, item.about.outputs[0]).shape) : "");
}

const valueOf = (data, number) => number >= 0 ? data.values[number] : data.weights[-1 - number];

function shapeText(shape) {
  if (!shape) return "";
  return shape.length ? shape.map(size => size === null ? "?" : size).join("×") : "scalar";
}

const FITTED = new Map();
function fitted(context, words, room) {
  const key = context.font + "|" + Math.round(room) + "|" + words;
  if (FITTED.has(key)) return FITTED.get(key);
  let shown = words;
  if (context.measureText(shown).width > room) {
    let low = 0, high = words.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (context.measureText(words.slice(0, middle) + "…").width <= room) low = middle; else high = middle - 1;
    }
    shown = words.slice(0, low) + "…";
  }
  if (FITTED.size > 20000) FITTED.clear();
  FITTED.set(key, shown);
  return shown;
}
