(function () {
  const page = JSON.parse(document.getElementById("page-data").textContent);
  const get = (id) => document.getElementById(id);
  const percent = (x, digits) => `${(100 * x).toFixed(digits === undefined ? 1 : digits)} %`;
  const put = (parent, tag, text, css) => {
    const one = document.createElement(tag);
    if (text !== undefined) one.textContent = text;
    if (css) one.className = css;
    parent.append(one);
    return one;
  };

  // thresholds: ROC, precision and recall, counts
  const draw = (place, label, line, guess, here, names) => {
    const size = 260, left = 44, top = 8, inner = 200;
    const x = (v) => left + inner * v, y = (v) => top + inner * (1 - v);
    const space = "http:" + "//www.w3.org/2000/svg";
    const part = (parent, tag, attributes, text) => {
      const one = document.createElementNS(space, tag);
      for (const [key, value] of Object.entries(attributes)) one.setAttribute(key, value);
      if (text !== undefined) one.textContent = text;
      parent.append(one);
      return one;
    };
    place.textContent = "";
    const svg = part(place, "svg", { viewBox: `0 0 ${size} ${size - 10}`, role: "img", "aria-label": label });
    for (const v of [0, 0.25, 0.5, 0.75, 1]) {
      part(svg, "line", { class: "grid", x1: x(v), x2: x(v), y1: y(0), y2: y(1) });
      part(svg, "line", { class: "grid", x1: x(0), x2: x(1), y1: y(v), y2: y(v) });
      if (v !== 0.25 && v !== 0.75) {
        part(svg, "text", { x: x(v), y: y(0) + 14, "text-anchor": "middle" }, String(v));
        part(svg, "text", { x: x(0) - 5, y: y(v) + 4, "text-anchor": "end" }, String(v));
      }
    }
    part(svg, "rect", { class: "axis", x: x(0), y: y(1), width: inner, height: inner });
    part(svg, "line", { class: "guess", x1: x(0), y1: y(guess[0]), x2: x(1), y2: y(guess[1]) });
    part(svg, "path", { class: "line", d: "M" + line.map(([a, b]) => `${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("L") });
    if (here) part(svg, "circle", { class: "here", cx: x(here[0]), cy: y(here[1]), r: 6 });
    part(svg, "text", { x: x(0.5), y: y(0) + 30, "text-anchor": "middle" }, names[0]);
    part(svg, "text", { x: 12, y: y(0.5), "text-anchor": "middle", transform: `rotate(-90 12 ${y(0.5)})` }, names[1]);
  };

  if (page.scores) {
    const { classes, codes, p } = page.scores;
    const chooser = get("positive"), slider = get("cut");
    let curve = null;
    const compute = () => {
      const j = Number(chooser.value), n = codes.length;
      const order = Array.from(codes.keys()).sort((a, b) => p[j][b] - p[j][a]);
      const positive = codes.filter((code) => code === j).length;
      const roc = [[0, 0]], pr = [];
      let tp = 0, fp = 0, area = 0, average = 0;
      for (let i = 0; i < n; ) {
        const score = p[j][order[i]], before = [tp, fp];
        for (; i < n && p[j][order[i]] === score; i++) codes[order[i]] === j ? tp++ : fp++;
        area += ((fp - before[1]) * (tp + before[0])) / 2;
        average += (tp - before[0]) * (tp / (tp + fp));
        roc.push([fp / Math.max(n - positive, 1), tp / Math.max(positive, 1)]);
        pr.push([tp / Math.max(positive, 1), tp / (tp + fp)]);
      }
      if (pr.length) pr.unshift([0, pr[0][1]]);
      const both = positive > 0 && positive < n;
      curve = { j, n, positive, roc, pr, both };
      curve.area = both ? area / (positive * (n - positive)) : NaN;
      curve.average = both ? average / positive : NaN;
    };
    const show = () => {
      const { j, n, positive, roc, pr, both } = curve;
      const cut = Number(slider.value);
      let tp = 0, fp = 0;
      codes.forEach((code, i) => { if (p[j][i] >= cut) code === j ? tp++ : fp++; });
      const fn = positive - tp, tn = n - positive - fp;
      get("cut-text").textContent = percent(cut / 1000);
      for (const [id, count] of Object.entries({ tp, fp, fn, tn })) get(id).textContent = count;
      const recall = tp / Math.max(positive, 1), false_ = fp / Math.max(n - positive, 1);
      const precision = tp + fp ? tp / (tp + fp) : NaN;
      get("cut-words").textContent =
        `From ${percent(cut / 1000)} on, ${tp + fp} of ${n} rows are called ${classes[j]}` +
        (tp + fp ? `; ${percent(precision)} of these are right` : "") +
        (positive ? `. That finds ${percent(recall)} of all ${classes[j]}` : "") +
        (n > positive ? ` and wrongly calls ${percent(false_)} of the others.` : ".");
      get("roc-area").textContent = both ? `Area ${curve.area.toFixed(3)}` : "Only one class is here.";
      get("pr-area").textContent = both ? `Average precision ${curve.average.toFixed(3)}` : "";
      const share = positive / n;
      draw(get("roc"), `ROC curve of ${classes[j]}`, roc, [0, 1], [false_, recall], ["false positives", "found"]);
      draw(get("pr"), `Precision and recall of ${classes[j]}`, pr, [share, share],
        tp + fp ? [recall, precision] : null, ["recall: found", "precision: right"]);
    };
    chooser.addEventListener("change", () => { compute(); show(); });
    slider.addEventListener("input", show);
    compute();
    show();
  }

  // rows one by one
  if (!page.explored) return;
  const { rows, columns, classes, base, numbers } = page.explored;
  const list = get("row-list"), filter = get("row-filter"), detail = get("row-detail");
  const answer = (row) => row.p.indexOf(Math.max(...row.p));
  const truth = (row) => (row.y >= 0 ? classes[row.y] : row.y === -2 ? "a class it does not know" : "");
  const isWrong = (row) => (numbers ? row.outside : row.y !== -1 && answer(row) !== row.y);
  const cut = (text, n) => (text.length > n ? text.slice(0, n - 1) + "…" : text);
  const kept = {
    all: () => true,
    wrong: isWrong,
    unsure: (row) => Math.max(...row.p) < Math.max(750, 1500 / classes.length),
  };
  const fill = () => {
    list.textContent = "";
    rows.forEach((row, i) => {
      if (!kept[filter.value](row)) return;
      if (numbers) {
        put(list, "option", `Row ${row.n}: ${row.p}` + (row.y === null ? "" : `, is ${row.y}`)).value = i;
        return;
      }
      const best = answer(row);
      const text = `Row ${row.n}: ${cut(classes[best], 18)} ${percent(row.p[best] / 1000, 0)}`;
      const option = put(list, "option", text + (isWrong(row) ? `, is ${cut(truth(row), 18)}` : ""));
      option.value = i;
    });
    if (list.options.length) list.selectedIndex = 0;
    tell();
  };
  const tell = () => {
    detail.textContent = "";
    const row = rows[Number(list.value)];
    if (!list.options.length || !row) {
      put(detail, "p", "No such row.");
      return;
    }
    if (numbers) {
      const held = row.y === null ? "." : `. It is ${row.y}${row.outside ? ": outside." : "."}`;
      put(detail, "h3", `Row ${row.n}`);
      put(detail, "p", `The network says ${row.p}, with 90 % between ${row.i[0]} and ${row.i[1]}${held}`);
      put(detail, "p", `Usual rows get ${base}. What each column adds:`, "hint");
      addAll(row, 1e-300, (x) => x.toPrecision(3));
      return;
    }
    const best = answer(row);
    const sure = row.i ? ` (95 % interval ${percent(row.i[0] / 1000, 0)} to ${percent(row.i[1] / 1000, 0)})` : "";
    const known = row.y === -1 ? "." : isWrong(row) ? `. It is ${truth(row)}: wrong.` : ". That is right.";
    put(detail, "h3", `Row ${row.n}`);
    put(detail, "p", `The network says ${classes[best]}, ${percent(row.p[best] / 1000)}${sure}${known}`);
    const chances = put(detail, "div", undefined, "chances");
    const order = Array.from(row.p.keys()).sort((a, b) => row.p[b] - row.p[a]).slice(0, 6);
    for (const j of order) {
      put(chances, "span", classes[j]);
      const meter = put(chances, "span", undefined, "meter");
      put(meter, "span").style.width = `${row.p[j] / 10}%`;
      put(chances, "span", percent(row.p[j] / 1000), "n");
    }
    put(detail, "p", `Usual rows get ${percent(base[best] / 1000, 0)} for ${classes[best]}. What each column adds:`, "hint");
    addAll(row, 1, (x) => (x / 10).toFixed(1));
  };
  const addAll = (row, least, written) => {
    const adds = put(detail, "div", undefined, "adds");
    const lines = columns.map((name, j) => [name, row.v[j], row.a[j]]);
    lines.sort((a, b) => Math.abs(b[2]) - Math.abs(a[2]));
    if (row.r) lines.push(["all other columns", "", row.r]);
    const largest = Math.max(...lines.map((line) => Math.abs(line[2])), least);
    for (const [name, value, points] of lines) {
      put(adds, "span", cut(name, 60));
      put(adds, "span", value);
      const track = put(adds, "span", undefined, "track");
      put(track, "span", undefined, points >= 0 ? "up" : "down").style.width = `${(50 * Math.abs(points)) / largest}%`;
      put(adds, "span", `${points >= 0 ? "+" : "−"}${written(Math.abs(points))}`, "n");
    }
  };
  filter.addEventListener("change", fill);
  list.addEventListener("change", tell);
  const step = (by) => {
    const to = list.selectedIndex + by;
    if (to < 0 || to >= list.options.length) return;
    list.selectedIndex = to;
    tell();
  };
  get("row-back").addEventListener("click", () => step(-1));
  get("row-next").addEventListener("click", () => step(1));
  fill();
})();
