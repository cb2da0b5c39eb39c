// The words beside the picture: what is selected, or the model as a whole. Names are text, never markup.

function make(tag, className, ...content) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...content.filter(part => part !== null && part !== undefined && part !== ""));
  return element;
}

function section(heading, ...content) {
  return content.length ? make("section", "", make("h3", "", heading), ...content) : "";
}

function facts(rows) {
  const list = make("dl", "facts");
  for (const [name, value] of rows) if (value !== "" && value !== null && value !== undefined) list.append(make("dt", "", name), make("dd", "", value));
  return list;
}

function sizeText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB"];
  let index = 0;
  while (bytes >= 1024 && index < 3) { bytes /= 1024; index += 1; }
  return (index ? bytes.toFixed(1) : bytes) + " " + units[index];
}

const typeText = value => [value.dtype, shapeText(value.shape)].filter(Boolean).join(" ");

function panel(element, state, go) {
  const { data } = state.graph;

  function show() {
    const item = state.selected;
    element.replaceChildren(...(item ? item.type === "scope" ? scopeWords(item) : leafWords(item) : modelWords()));
    element.scrollTop = 0;
    element.classList.toggle("chosen", Boolean(item));
  }

  function modelWords() {
    const about = data.model;
    return [
      make("h2", "", about.name),
      facts([
        ["nodes", state.graph.leaves.length.toLocaleString("en")], ["parameters", about.parameters.toLocaleString("en")], ["weights", sizeText(about.bytes)],
        ["opset", String(about.opset)], ["IR version", String(about.ir_version)], ["producer", about.producer],
      ]),
      section("Inputs", ...data.inputs.map(number => row(data.values[number], []))),
      section("Outputs", ...data.outputs.map(number => row(valueOf(data, number), []))),
      section("Operators", counts(state.graph.leaves)),
    ];
  }

  function scopeWords(scope) {
    const leaves = [...leavesOf(scope)].filter(leaf => leaf.type === "node");
    const stored = new Set(leaves.flatMap(leaf => leaf.about.inputs.filter(number => number !== null && number < 0)));
    const bytes = [...stored].reduce((sum, number) => sum + data.weights[-1 - number].bytes, 0);
    return [
      crumbs(scope), make("h2", "", scope.name),
      facts([["class", scope.kind], ["nodes", String(leaves.length)], ["weights", sizeText(bytes)], ...painted(scope)]),
      toggleButton(scope), section("Operators", counts(leaves)),
    ];
  }

  function leafWords(leaf) {
    if (leaf.type !== "node") return [make("h2", "", leaf.about.name), facts([["kind", leaf.type + " of the model"], ["type", typeText(leaf.about)]])];
    const node = leaf.about;
    const attributes = Object.entries(node.attributes || {});
    return [
      crumbs(leaf), make("h2", "", node.op),
      facts([["name", node.name], ["domain", node.domain], ...painted(leaf)]),
      attributes.length ? section("Attributes", facts(attributes)) : "",
      section("Inputs", ...node.inputs.filter(number => number !== null).map(input)),
      section("Outputs", ...node.outputs.map(number => row(valueOf(data, number), state.graph.readers.get(number) || [], "→ "))),
      node.source ? section("Source", make("pre", "", node.source)) : "",
    ];
  }

  // What every overlay says of the item, the chosen one or not.
  function painted(item) {
    const rows = [];
    for (const known of state.painters.values()) {
      const { overlay } = known, value = known.value(item);
      if (value === undefined) continue;
      const words = overlay.kind === "word" ? value.map(([word, count]) => value.length > 1 ? word + " × " + count : word).join(", ") : quantity(value, overlay.unit);
      const more = item.type === "node" ? overlay.texts[item.index] : "";
      rows.push([overlay.title.toLowerCase(), more ? words + ": " + more : words]);
    }
    return rows;
  }

  function crumbs(item) {
    const bar = make("nav", "crumbs");
    for (const scope of ancestors(item).reverse().slice(1)) bar.append(button(scope.name, () => go(scope)), make("span", "", " / "));
    return bar;
  }

  function input(number) {
    if (number >= 0) return row(data.values[number], [state.graph.makers.get(number)].filter(Boolean), "← ");
    return weight(data.weights[-1 - number]);
  }

  function row(value, others, arrow) {
    const links = others.map(other => button(arrow + title(other) + (other.about.name && other.type === "node" ? " " + other.about.name : ""), () => go(other)));
    return make("div", "value", make("b", "", value.name), make("span", "type", typeText(value)), links.length ? make("div", "links", ...links) : "");
  }

  function weight(stored) {
    const found = stored.statistics, box = row(stored, []);
    box.classList.add("weight");
    if (stored.unreadable) box.append(make("div", "soft", stored.unreadable));
    if (stored.values) box.append(make("code", "", JSON.stringify(stored.values)));
    if (!found) return box;
    if (found.histogram && found.histogram.length > 1) box.append(histogram(found));
    const bad = found.not_finite ? [["not finite", String(found.not_finite)]] : [];
    box.append(facts([
      ["min", quantity(found.min, "")], ["max", quantity(found.max, "")], ["mean", quantity(found.mean, "")], ["std", quantity(found.std, "")],
      ["zeros", Number((100 * found.zeros).toPrecision(3)) + " %"], ["size", sizeText(stored.bytes)], ...bad,
    ].filter(([, value]) => value !== "undefined")));
    return box;
  }

  function histogram(found) {
    const space = "http://www.w3.org/2000/svg", picture = document.createElementNS(space, "svg");
    const high = Math.max(...found.histogram), width = 100 / found.histogram.length;
    picture.setAttribute("viewBox", "0 0 100 30");
    picture.setAttribute("preserveAspectRatio", "none");
    picture.setAttribute("role", "img");
    picture.setAttribute("aria-label", "histogram from " + quantity(found.min, "") + " to " + quantity(found.max, ""));
    found.histogram.forEach((count, index) => {
      const bar = document.createElementNS(space, "rect"), height = 30 * count / high;
      for (const [name, value] of Object.entries({ x: index * width, y: 30 - height, width: width * 0.9, height })) bar.setAttribute(name, value);
      picture.append(bar);
    });
    return picture;
  }

  function counts(leaves) {
    const found = new Map();
    for (const leaf of leaves) if (leaf.type === "node") found.set(leaf.about.op, (found.get(leaf.about.op) || 0) + 1);
    return facts([...found].sort((one, two) => two[1] - one[1]).slice(0, 40).map(([op, count]) => [op, String(count)]));
  }

  function toggleButton(scope) {
    return button(scope.open ? "Close this scope" : "Open this scope", () => state.toggle(scope), "wide");
  }

  function button(words, action, className) {
    const made = make("button", className || "link", words);
    made.type = "button";
    made.addEventListener("click", action);
    return made;
  }

  return { show };
}
