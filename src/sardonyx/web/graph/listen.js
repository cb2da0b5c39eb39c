// Hands on the picture: one pointer pans and picks, two zoom, the wheel zooms, keys do all of it.

function listen(canvas, parts, state, act, matches, options) {
  const pointers = new Map();
  let moved = 0, apart = 0, last = null, next = 0, active = !options.embedded;

  // Inside a longer page the wheel and the finger scroll the page until the picture has been touched.
  function activate(on) {
    if (!options.embedded) return;
    active = on;
    canvas.classList.toggle("active", on);
  }
  canvas.classList.toggle("embedded", Boolean(options.embedded));
  document.addEventListener("pointerdown", event => { if (!canvas.parentElement.contains(event.target)) activate(false); });

  const spot = event => { const box = canvas.getBoundingClientRect(); return { x: event.clientX - box.left, y: event.clientY - box.top }; };

  canvas.addEventListener("pointerdown", event => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, spot(event));
    parts.results.hidden = true;
    moved = 0;
    apart = spread();
  });
  canvas.addEventListener("pointermove", event => {
    if (!pointers.has(event.pointerId)) return;
    const here = spot(event), before = pointers.get(event.pointerId);
    if (event.pointerType === "touch" && !active) return;
    pointers.set(event.pointerId, here);
    if (pointers.size === 2) {
      const now = spread(), middle = centre();
      if (apart > 0) act.zoom(now / apart, middle.x, middle.y);
      apart = now;
      moved = 99;
      return;
    }
    moved += Math.abs(here.x - before.x) + Math.abs(here.y - before.y);
    if (moved < 4) return;
    state.view.x += here.x - before.x; state.view.y += here.y - before.y;
    act.redraw();
  });
  const spread = () => { const [one, two] = pointers.values(); return two ? Math.hypot(one.x - two.x, one.y - two.y) : 0; };
  const centre = () => { const [one, two] = pointers.values(); return { x: (one.x + two.x) / 2, y: (one.y + two.y) / 2 }; };

  canvas.addEventListener("pointerup", event => {
    pointers.delete(event.pointerId);
    if (moved >= 4) return;
    activate(true);
    const here = spot(event), item = act.at(here.x, here.y), again = last && last.item === item && event.timeStamp - last.time < 350;
    last = { item, time: event.timeStamp };
    const onArrow = item && item.type === "scope" && here.x < (item.left + 24) * state.view.scale + state.view.x && here.y < (item.top + HEADER) * state.view.scale + state.view.y;
    act.select(item);
    if (item && item.type === "scope" && (again || onArrow)) { last = null; act.toggle(item); }
  });
  canvas.addEventListener("pointercancel", event => pointers.delete(event.pointerId));
  canvas.addEventListener("wheel", event => {
    if (!active && !event.ctrlKey) return;
    event.preventDefault();
    const here = spot(event), size = event.deltaMode ? 30 : 1;
    act.zoom(Math.exp(-event.deltaY * size * (event.ctrlKey ? 0.01 : 0.0016)), here.x, here.y);
  }, { passive: false });

  const MOVES = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
  canvas.addEventListener("keydown", event => {
    const middle = [canvas.clientWidth / 2, canvas.clientHeight / 2];
    if (MOVES[event.key]) { state.view.x += MOVES[event.key][0]; state.view.y += MOVES[event.key][1]; act.redraw(); }
    else if (event.key === "+" || event.key === "=") act.zoom(1.25, ...middle);
    else if (event.key === "-") act.zoom(0.8, ...middle);
    else if (event.key === "0") act.whole();
    else if (event.key === "Enter" && state.selected && state.selected.type === "scope") act.toggle(state.selected);
    else if (event.key === "Escape") act.select(null);
    else if (event.key === "/") act.focusSearch();
    else return;
    event.preventDefault();
  });
  parts.search.addEventListener("input", () => { next = 0; });
  parts.search.addEventListener("keydown", event => {
    if (event.key === "Enter" && matches().length) {
      act.go(matches()[next % matches().length]);
      next += event.shiftKey ? matches().length - 1 : 1;
      parts.results.hidden = true;
    } else if (event.key === "Escape") {
      parts.search.value = "";
      act.search("");
    } else return;
    event.preventDefault();
  });
}
