// What colour says: the kind of operator, or a number or word of an overlay.

const KINDS = [
  ["compute", /^(Conv|ConvTranspose|ConvInteger|MatMul.*|Gemm|FusedMatMul|FusedConv|QLinearConv|QLinearMatMul|QGemm|Einsum|LSTM|GRU|RNN|.*Attention|DynamicQuantizeMatMul|Tree.*|Linear.*|SVM.*)$/],
  ["activation", /^(Relu|LeakyRelu|PRelu|Elu|Selu|Celu|Gelu|FastGelu|QuickGelu|BiasGelu|Sigmoid|HardSigmoid|HardSwish|Swish|Tanh|Softplus|Softmax|LogSoftmax|Clip|Erf|Mish|ThresholdedRelu)$/],
  ["normalise", /^(.*Normalization|.*Norm|LRN|Scaler|Normalizer)$/],
  ["reduce", /^(.*Pool|Reduce.*|ArgMax|ArgMin|TopK|CumSum|Resize|Upsample|NonMaxSuppression)$/],
  ["quantise", /^(QuantizeLinear|DequantizeLinear|DynamicQuantizeLinear)$/],
  ["shape", /^(Reshape|Transpose|Concat|Split|Slice|Gather.*|Scatter.*|Squeeze|Unsqueeze|Flatten|Expand|Shape|Size|Pad|Tile|Cast.*|Identity|ConstantOfShape|Range|Reorder|Where|NonZero|DepthToSpace|SpaceToDepth|.*Sequence.*|ZipMap)$/],
  ["control", /^(If|Loop|Scan)$/],
];
const KIND_NAMES = { compute: "matrix products", activation: "activation", normalise: "normalisation", reduce: "pooling, reduction", quantise: "quantise", shape: "shape and movement", control: "control flow", other: "other" };

function kindOf(item) {
  if (item.type !== "node") return item.type;
  const found = KINDS.find(([, pattern]) => pattern.test(item.about.op));
  return found ? found[0] : "other";
}

function palette(element) {
  const style = getComputedStyle(element), read = name => style.getPropertyValue("--" + name).trim();
  return {
    ink: read("ink"), soft: read("soft"), paper: read("paper"), card: read("card"), line: read("line"), edge: read("edge"), accent: read("accent"),
    scope: read("scope"), scopeOpen: read("scope-open"), mark: read("mark"),
    kinds: Object.fromEntries([...Object.keys(KIND_NAMES), "input", "output"].map(kind => [kind, read("kind-" + kind)])),
    ramp: [0, 1, 2, 3, 4].map(step => rgb(read("ramp-" + step))), words: [0, 1, 2, 3, 4, 5, 6, 7].map(step => read("word-" + step)),
    none: read("none"), font: style.fontFamily,
  };
}

function rgb(hex) {
  const value = parseInt(hex.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

function ramp(stops, share) {
  const at = Math.max(0, Math.min(1, share)) * (stops.length - 1), low = Math.min(Math.floor(at), stops.length - 2), part = at - low;
  return stops[low].map((value, index) => Math.round(value + (stops[low + 1][index] - value) * part));
}

const css = colour => "rgb(" + colour.join(" ") + ")";
const readable = colour => 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2] > 140 ? "#16191d" : "#ffffff";

// An overlay ready to be drawn: `of(item)` gives a value and its colour, or nothing.
function painter(overlay, items) {
  if (!overlay) return null;
  const cache = new Map();
  const own = leaf => leaf.type === "node" ? overlay.values[leaf.index] : undefined;
  const value = item => {
    if (!cache.has(item)) cache.set(item, overlay.kind === "word" ? words(item, own) : number(item, own, overlay.combine));
    return cache.get(item);
  };
  if (overlay.kind === "word") {
    const counts = new Map();
    for (const word of Object.values(overlay.values)) counts.set(word, (counts.get(word) || 0) + 1);
    const order = [...counts].sort((one, two) => two[1] - one[1]).map(([word]) => word);
    return { overlay, value, counts, order, slot: word => Math.min(order.indexOf(word), 7) };
  }
  const shown = { low: 0, high: 1 };
  return { overlay, value, shown, share: number => share(number, shown, overlay.combine), measure: visible => measure(visible, value, shown, overlay.combine) };
}

function words(item, own) {
  const counts = new Map();
  for (const leaf of leavesOf(item)) {
    const word = own(leaf);
    if (word !== undefined) counts.set(word, (counts.get(word) || 0) + 1);
  }
  return counts.size ? [...counts].sort((one, two) => two[1] - one[1]) : undefined;
}

function number(item, own, combine) {
  let found;
  for (const leaf of leavesOf(item)) {
    const value = own(leaf);
    if (typeof value !== "number") continue;
    found = found === undefined ? value : combine === "sum" ? found + value : Math.max(found, value);
  }
  return found;
}

// The scale fits what is to be seen: shares of a sum by their root, errors by their magnitude.
function measure(items, value, shown, combine) {
  const numbers = items.map(value).filter(found => typeof found === "number");
  shown.high = Math.max(...numbers, 0) || 1;
  const positive = numbers.filter(found => found > 0);
  shown.low = combine === "sum" ? 0 : Math.max(Math.min(...positive, shown.high), shown.high * 1e-9);
}

function share(number, { low, high }, combine) {
  if (combine === "sum") return Math.sqrt(Math.max(0, number) / high);
  if (number <= 0) return 0;
  return high > low ? Math.max(0, Math.log(number / low) / Math.log(high / low)) : 1;
}

function quantity(number, unit) {
  if (typeof number !== "number") return String(number);
  if (unit === "s") {
    const [size, name] = number >= 1 ? [1, "s"] : number >= 1e-3 ? [1e3, "ms"] : [1e6, "µs"];
    return Number((number * size).toPrecision(3)) + " " + name;
  }
  if (number === 0) return "0";
  return Math.abs(number) >= 1e5 || Math.abs(number) < 1e-3 ? number.toExponential(2) : String(Number(number.toPrecision(4)));
}
