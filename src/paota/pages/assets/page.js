"use strict";
(() => {
  const payload = JSON.parse(document.getElementById("payload").textContent);
  const systemDark = window.matchMedia("(prefers-color-scheme: dark)");
  const narrow = window.matchMedia("(max-width: 560px)");
  const touch = window.matchMedia("(pointer: coarse)");
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const plots = new Map(all(".plot").map((place) => [place.dataset.figure, place]));

  // The views of each group of figures; the first is shown until the reader chooses another.
  const groups = {};
  for (const { group, views } of Object.values(payload.figures)) {
    if (group) groups[group] = [...new Set([...(groups[group] ?? []), ...Object.keys(views)])];
  }
  // What the reader chose. The address keeps it (#axis=rounds&theme=dark&hide=1&at=power), so a reload or a link shows
  // the same; `at` is the section that was jumped to.
  const state = { theme: null, hidden: new Set(), choices: {}, at: null, drawAll: false, printing: false };
  const started = new Set(); // figures that were asked for once; the others wait until they come near
  const waiting = []; // figures to draw now, in order

  const theme = () => state.printing ? "light" : state.theme ?? (systemDark.matches ? "dark" : "light");
  const small = () => narrow.matches && !state.printing;

  // ---- colours and names -------------------------------------------------------------------------------------------
  // "$muted" is a colour of the page, "$staleness2" one of a list. Only keys that hold colours are looked at: elsewhere it
  // may be a name.
  function colour(token) {
    const colours = payload.palette[theme()];
    const [, name, index] = /^\$([a-z-]+)(\d*)$/.exec(token);
    return index === "" ? colours.chrome[name] : colours[name][Number(index)];
  }

  function coloured(part) {
    if (Array.isArray(part)) return part.map(coloured);
    if (part === null || typeof part !== "object") return part;
    return Object.fromEntries(Object.entries(part).map(([key, value]) => {
      if (key === "colorscale") return [key, value.map(([share, token]) => [share, colour(token)])];
      return [key, key.endsWith("color") && typeof value === "string" && value.startsWith("$") ? colour(value) : coloured(value)];
    }));
  }

  const hatches = { solid: "", dash: "/", dot: ".", dashdot: "\\", longdash: "x", longdashdot: "+" };
  const sharesColour = (series) => payload.series.some((other) => other !== series && other.colour === series.colour);
  const seriesColour = (series) => payload.palette[theme()].series[series.colour];

  function translucent(hex, opacity) {
    const [red, green, blue] = [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16));
    return `rgba(${red},${green},${blue},${opacity})`;
  }

  // Plotly reads a little markup in its texts; a name is never markup.
  const plain = (name) => name.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const short = (name) => plain(name.length > 48 ? name.slice(0, 47) + "…" : name);
  const plainAll = (values) => values?.map((value) => typeof value === "string" ? short(value) : value);

  // ---- from our figures to Plotly's --------------------------------------------------------------------------------
  function band(trace, hex) {
    const x = [], y = [];
    const [low, high] = trace.band;
    let from = 0;
    for (let to = 0; to <= trace.x.length; to += 1) {
      const gap = to === trace.x.length || low[to] === null || high[to] === null;
      if (!gap) continue;
      if (to > from) { // one closed outline for each unbroken stretch
        const stretch = trace.x.slice(from, to);
        x.push(...stretch, ...stretch.slice().reverse(), null);
        y.push(...high.slice(from, to), ...low.slice(from, to).reverse(), null);
      }
      from = to + 1;
    }
    return { type: "scatter", mode: "lines", x, y, fill: "toself", fillcolor: translucent(hex, 0.16),
      line: { width: 0 }, hoverinfo: "skip", showlegend: false };
  }

  function smaller(trace) {
    if (trace.mode === "markers") trace.marker.size = 5;
    if (trace.textfont) trace.textfont.size *= 0.75;
    return trace;
  }

  function dressed(given) {
    const texts = ["x", "y", "text"].filter((key) => Array.isArray(given[key])).map((key) => [key, plainAll(given[key])]);
    const trace = { ...given, ...Object.fromEntries(texts) };
    if (trace.series === undefined) return [small() ? smaller(coloured(trace)) : coloured(trace)];
    const series = payload.series[trace.series];
    if (state.hidden.has(trace.series)) return [];
    const hex = seriesColour(series);
    const { series: _, band: hasBand, dash, table, ...rest } = coloured(trace);
    // On paper every figure has its own legend; the page's is far away.
    const shown = { ...rest, name: short(trace.name ?? series.name), showlegend: state.printing || trace.name !== undefined };
    if (trace.mode === "text") { // a phone has room for the crosses only; the numbers are in the table
      shown.textfont = { color: payload.palette[theme()].chrome.muted, size: 12 };
      shown.showlegend = false;
      if (small()) shown.text = shown.text.map((text) => text === "✕" ? text : "");
      return [shown];
    }
    if (trace.type === "scatter") {
      shown.line = { color: hex, width: 2, dash: dash ?? series.dash };
      shown.marker = { color: hex, size: 6, opacity: 1, ...rest.marker };
      return hasBand ? [band(trace, hex), shown] : [shown];
    }
    shown.marker = { color: trace.type === "box" ? hex : translucent(hex, 0.88), line: { color: hex, width: 1 } };
    if (trace.type === "bar" && sharesColour(series)) { // bars have no dashes: hatch them
      shown.marker.pattern = { shape: hatches[series.dash], fillmode: "overlay", size: 7, solidity: 0.25, fgcolor: payload.palette[theme()].chrome.card };
    }
    if (trace.type === "box") Object.assign(shown, { line: { color: hex, width: 1.5 }, fillcolor: translucent(hex, 0.2) });
    return [shown];
  }

  function axis(own, chrome) {
    return { gridcolor: chrome.grid, linecolor: chrome.rule, zerolinecolor: chrome.grid, tickcolor: chrome.rule,
      automargin: true, nticks: small() ? 6 : 10, fixedrange: touch.matches, ...own,
      ...(own?.ticktext && { ticktext: plainAll(own.ticktext) }),
      title: { standoff: 8, font: { size: 12, color: chrome.muted }, ...own?.title, text: short(own?.title?.text ?? "") } };
  }

  function legendOf(view) {
    const shown = state.printing && view.traces.some((trace) => trace.series !== undefined);
    return { showlegend: shown, legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" } };
  }

  function layoutOf(view) {
    const chrome = payload.palette[theme()].chrome;
    const own = coloured(view.layout);
    if (view.columns[0] === "round" && view.traces.every((trace) => Math.max(...trace.x) <= 10)) own.xaxis.dtick = 1;
    own.annotations?.forEach((note) => { note.text = short(note.text); });
    return {
      paper_bgcolor: chrome.card, plot_bgcolor: chrome.card, autosize: true,
      font: { family: getComputedStyle(document.body).fontFamily, size: small() ? 11 : 12, color: chrome.muted },
      margin: { l: 44, r: 12, t: 12, b: 40 }, hovermode: "x unified", dragmode: touch.matches ? false : "zoom",
      hoverlabel: { bgcolor: chrome.card, bordercolor: chrome.rule, namelength: -1, font: { color: chrome.text, size: 12 } },
      ...legendOf(view), ...own, xaxis: axis(own.xaxis, chrome), yaxis: axis(own.yaxis, chrome),
    };
  }

  const config = { displayModeBar: false, responsive: true, showTips: false, doubleClick: "reset" };

  function viewOf(id) {
    const figure = payload.figures[id];
    return figure.views[state.choices[figure.group]] ?? Object.values(figure.views)[0];
  }

  async function draw(id) {
    const place = plots.get(id);
    const view = viewOf(id);
    try {
      const sized = state.printing ? { autosize: false, width: place.clientWidth, height: place.clientHeight } : {};
      await Plotly.react(place, view.traces.flatMap(dressed), { ...layoutOf(view), ...sized }, config);
      refreshTable(id);
    } catch (problem) {
      place.classList.add("empty");
      place.textContent = "This figure could not be drawn; its data is below.";
      console.error(`figure ${id}:`, problem);
    }
  }

  // ---- drawing when it is needed -----------------------------------------------------------------------------------
  let pumping = false;
  async function pump() {
    if (pumping) return;
    pumping = true;
    document.body.dataset.ready = "false";
    while (waiting.length) {
      await draw(waiting.shift());
      await new Promise((resume) => setTimeout(resume)); // let the page breathe between two figures
    }
    pumping = false;
    document.body.dataset.ready = "true";
  }

  function want(ids) {
    for (const id of ids) {
      started.add(id);
      if (!waiting.includes(id)) waiting.push(id);
    }
    pump();
  }

  // What the window shows at first is drawn before the page counts as loaded: a picture taken then has its figures.
  const nearby = 800; // px
  const folded = (place) => place.closest("details:not([open])");
  const folds = () => all("details.more:not([open])");
  function drawFirst() {
    const near = [...plots].filter(([, place]) => !folded(place) && place.getBoundingClientRect().top < window.innerHeight + nearby);
    near.forEach(([id]) => started.add(id));
    Promise.all(near.map(([id]) => draw(id))).then(pump);
  }

  function wantMissing() {
    folds().forEach((details) => { details.open = true; });
    want([...plots.keys()].filter((id) => !started.has(id)));
  }
  const redraw = (chosen = () => true) => want([...started].filter((id) => chosen(payload.figures[id])));

  function watch() {
    const observer = new IntersectionObserver((entries) => {
      const near = entries.filter((entry) => entry.isIntersecting).map((entry) => entry.target);
      near.forEach((place) => observer.unobserve(place));
      want(near.map((place) => place.dataset.figure).filter((id) => !started.has(id)));
    }, { rootMargin: `${nearby}px 0px` });
    plots.forEach((place) => { if (!started.has(place.dataset.figure)) observer.observe(place); });
  }

  // ---- the data behind a figure ------------------------------------------------------------------------------------
  function rowsOf(view) {
    if (view.records) {
      return [[...view.records], ...view.traces.flatMap((trace) => trace.customdata ?? [])];
    }
    const rows = [["series", ...view.columns, "low", "high"]];
    for (const trace of view.traces.filter((trace) => trace.mode !== "text" && trace.table !== false)) {
      const name = trace.series === undefined ? trace.name : payload.series[trace.series].name;
      const y = trace.median ?? trace.y;
      const [low, high] = trace.type === "box" ? [trace.q1, trace.q3] : trace.band ?? whiskers(trace);
      trace.x.forEach((x, i) => {
        const missing = y[i] === null || y[i] === undefined;
        rows.push([name, x, missing ? (trace.error_y ? "not reached" : "") : y[i], missing ? "" : low?.[i] ?? "", missing ? "" : high?.[i] ?? ""]);
      });
    }
    return rows;
  }

  function whiskers(trace) {
    if (!trace.error_y) return [];
    const tidy = (value) => Number(value.toPrecision(5));
    return [trace.y.map((y, i) => tidy(y - trace.error_y.arrayminus[i])), trace.y.map((y, i) => tidy(y + trace.error_y.array[i]))];
  }

  function csv(rows) {
    // A spreadsheet must not take a name for a formula.
    const safe = (cell) => typeof cell === "string" && /^[=+\-@\t\r]/.test(cell) ? "'" + cell : String(cell ?? "");
    const quoted = (cell) => /[",\r\n]/.test(cell) ? `"${cell.replace(/"/g, '""')}"` : cell;
    return rows.map((row) => row.map((cell) => quoted(safe(cell))).join(",")).join("\r\n") + "\r\n";
  }

  function save(text, file, type) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = file;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  function element(tag, content, attributes = {}) {
    const made = document.createElement(tag);
    if (content !== null) made.textContent = content;
    Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
    return made;
  }

  const mostRows = 500;
  function refreshTable(id) {
    const details = document.querySelector(`[data-table="${id}"]`);
    if (!details?.open) return;
    const [head, ...rows] = rowsOf(viewOf(id));
    const button = element("button", "Save as CSV", { type: "button", class: "button" });
    button.addEventListener("click", () => save(csv([head, ...rows]), `${id}.csv`, "text/csv"));
    const picture = element("button", "Save as PNG", { type: "button", class: "button" });
    picture.addEventListener("click", () => Plotly.downloadImage(plots.get(id), { format: "png", scale: 2, filename: id }));
    const drawing = element("button", "Save as SVG", { type: "button", class: "button" });
    drawing.addEventListener("click", () => Plotly.downloadImage(plots.get(id), { format: "svg", filename: id }));
    const table = element("table", null);
    table.createTHead().insertRow().append(...head.map((cell) => element("th", cell, { scope: "col" })));
    const body = table.createTBody();
    for (const row of rows.slice(0, mostRows)) body.insertRow().append(...row.map((cell) => element("td", String(cell ?? ""))));
    const box = element("div", null, { class: "table-box", role: "region", tabindex: "0", "aria-label": `Data of ${payload.figures[id].title}` });
    box.append(table);
    const note = rows.length > mostRows ? [element("p", `The first ${mostRows} of ${rows.length} rows; the file has all.`, { class: "spread" })] : [];
    details.replaceChildren(details.querySelector("summary"), button, picture, drawing, box, ...note);
  }

  // ---- controls ----------------------------------------------------------------------------------------------------
  function reflect() {
    const dark = theme() === "dark";
    document.documentElement.dataset.theme = theme();
    document.getElementById("theme").textContent = dark ? "Light" : "Dark";
    document.getElementById("theme").setAttribute("aria-label", `Switch to the ${dark ? "light" : "dark"} theme`);
    all("button[data-group]").forEach((button) =>
      button.setAttribute("aria-pressed", String((state.choices[button.dataset.group] ?? groups[button.dataset.group][0]) === button.dataset.view)));
    all("select[data-group]").forEach((select) => { select.value = state.choices[select.dataset.group] ?? select.options[0].value; });
    all(".chip").forEach((chip) => chip.setAttribute("aria-pressed", String(!state.hidden.has(Number(chip.dataset.series)))));
    for (const place of all("[data-swatch]")) {
      const series = payload.series[Number(place.dataset.swatch)];
      if (!series) continue;
      place.innerHTML = `<svg width="26" height="10" aria-hidden="true"><line x1="0" x2="26" y1="5" y2="5" stroke-width="3"/></svg>`;
      place.querySelector("line").setAttribute("stroke", seriesColour(series));
      place.querySelector("line").setAttribute("stroke-dasharray", series.strokes);
    }
  }

  function remember() {
    const words = Object.entries(state.choices).filter(([group, view]) => view !== groups[group][0]);
    if (state.theme) words.push(["theme", state.theme]);
    if (state.hidden.size) words.push(["hide", [...state.hidden].join(",")]);
    const at = state.at ? (words.length ? [["at", state.at]] : [[state.at]]) : [];
    const address = [...words, ...at].map((word) => word.join("=")).join("&");
    history.replaceState(null, "", address ? "#" + address : location.pathname);
    reflect();
  }

  function recall() {
    const plainSection = location.hash && !location.hash.includes("=");
    if (plainSection) { // a link of the page: it must not forget what was chosen
      state.at = location.hash.slice(1);
      return remember();
    }
    const words = new URLSearchParams(location.hash.slice(1));
    state.theme = ["light", "dark"].includes(words.get("theme")) ? words.get("theme") : null;
    state.choices = Object.fromEntries(Object.entries(groups).filter(([group, views]) => views.includes(words.get(group))).map(([group]) => [group, words.get(group)]));
    state.hidden = new Set((words.get("hide") ?? "").split(",").filter((part) => part in payload.series).map(Number));
    state.drawAll = words.get("draw") === "all";
    state.at = words.get("at");
    if (state.at) document.getElementById(state.at)?.scrollIntoView();
  }

  function choose(group, view) {
    state.choices[group] = view;
    remember();
    redraw((figure) => figure.group === group);
  }

  document.getElementById("theme").addEventListener("click", () => {
    state.theme = theme() === "dark" ? "light" : "dark";
    remember();
    redraw();
  });
  systemDark.addEventListener("change", () => { reflect(); redraw(); });
  narrow.addEventListener("change", () => redraw());
  all("button[data-group]").forEach((button) => button.addEventListener("click", () => choose(button.dataset.group, button.dataset.view)));
  all("select[data-group]").forEach((select) => select.addEventListener("change", () => choose(select.dataset.group, select.value)));
  all(".chip").forEach((chip) => chip.addEventListener("click", () => {
    const index = Number(chip.dataset.series);
    if (!state.hidden.delete(index)) state.hidden.add(index);
    remember();
    redraw((figure) => figure.group !== "timeline");
  }));
  all("details[data-table]").forEach((details) => details.addEventListener("toggle", () => refreshTable(details.dataset.table)));
  all("[data-save]").forEach((button) => button.addEventListener("click", () =>
    save(document.getElementById(button.dataset.save).textContent, button.dataset.file, "text/plain")));
  window.addEventListener("hashchange", () => { recall(); reflect(); redraw(); });
  // Printing does not wait: every figure is drawn at once, on white, as wide as the paper.
  let unfolded = [];
  window.addEventListener("beforeprint", () => {
    state.printing = true;
    unfolded = folds();
    unfolded.forEach((details) => { details.open = true; });
    document.documentElement.classList.add("printing");
    reflect();
    plots.forEach((_, id) => { started.add(id); draw(id); });
  });
  window.addEventListener("afterprint", () => {
    state.printing = false;
    document.documentElement.classList.remove("printing");
    unfolded.forEach((details) => { details.open = false; });
    reflect();
    redraw();
  });
  window.addEventListener("error", (event) => {
    const problem = document.getElementById("problem");
    problem.hidden = false;
    problem.textContent = `Something in this page went wrong: ${event.message}`;
  });

  document.addEventListener("news", (event) => { // of a page that fills while something runs
    Object.assign(payload, event.detail);
    reflect();
    redraw();
  });

  recall();
  reflect();
  drawFirst();
  watch();
  if (state.drawAll) wantMissing();
})();
