"use strict";
(function () {
  const all = (query, root) => Array.from((root || document).querySelectorAll(query));

  // sort a table by the column whose head is clicked
  const value = (cell) => {
    const text = cell.textContent.trim();
    const number = parseFloat(text.replace("%", ""));
    return /^[-+]?[\d.]/.test(text) && !Number.isNaN(number) ? number : text;
  };
  const compare = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
  for (const table of all("table.sortable")) {
    const heads = all("thead th", table);
    heads.forEach((head, j) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      head.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = all("tbody tr", table);
        rows.sort((a, b) => (down ? -1 : 1) * compare(value(a.cells[j]), value(b.cells[j])));
        rows.forEach((row) => table.tBodies[0].appendChild(row));
      });
    });
  }

  // find a feature
  const find = document.getElementById("find");
  find.addEventListener("input", () => {
    const wanted = find.value.toLowerCase();
    for (const row of all("#effects tbody tr")) {
      row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
    }
  });

  // show one layer's experts
  const layer = document.getElementById("layer");
  layer.addEventListener("change", () => {
    for (const row of all("#rules tbody tr")) {
      row.hidden = layer.value !== "" && row.dataset.layer !== layer.value;
    }
  });

  // light up the expert of the selected line
  const diagram = document.getElementById("diagram");
  const nodes = all(".node", diagram); // a dot and a name under each key
  const light = (key) => nodes.filter((node) => node.dataset.key === key).forEach((node) => node.classList.add("on"));
  let selected = null;
  const select = (key, keep) => {
    selected = key === selected && !keep ? null : key;
    for (const row of all("#rules tbody tr")) row.classList.toggle("selected", row.dataset.key === selected);
    for (const part of all(".on", diagram)) part.classList.remove("on");
    diagram.classList.toggle("focus", selected !== null);
    if (selected === null) return;
    light(selected);
    for (const edge of all(".edge", diagram)) {
      if (edge.dataset.from !== selected && edge.dataset.to !== selected) continue;
      edge.classList.add("on");
      light(edge.dataset.from);
      light(edge.dataset.to);
    }
  };
  for (const row of all("#rules tbody tr")) {
    row.addEventListener("click", () => select(row.dataset.key));
    row.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        select(row.dataset.key);
      }
    });
  }
  for (const node of nodes) {
    if (node.dataset.key.startsWith("u")) node.addEventListener("click", () => select(node.dataset.key));
  }

  for (const button of all("button[data-show]")) {
    button.addEventListener("click", () => {
      select(button.dataset.show, true);
      diagram.scrollIntoView({ block: "center" });
    });
  }

  // on a phone each line of a wide table is a block, with the heads beside the cells
  for (const table of all("table.stack")) {
    const heads = all("thead th", table).map((head) => head.textContent);
    for (const row of all("tbody tr", table)) heads.forEach((text, j) => (row.cells[j].dataset.head = text));
  }

  // say where a table goes on
  for (const box of all(".scroll, .picture.wide")) {
    const down = box.scrollHeight > box.clientHeight + 4;
    const across = box.scrollWidth > box.clientWidth + 4;
    if (!down && !across) continue;
    const cue = document.createElement("p");
    cue.className = "cue";
    const n = all("tbody tr", box).length;
    cue.textContent = down ? `${n} lines; scroll ${across ? "down and sideways" : "down"} for the rest.` : "Scroll sideways for the rest.";
    box.after(cue);
  }

  // a printed page shows everything
  window.addEventListener("beforeprint", () => all("details").forEach((one) => (one.open = true)));

  // maps: choose a class, read the probability under the pointer
  const maps = JSON.parse(document.getElementById("page-data").textContent).maps;
  const chooser = document.getElementById("class");
  if (chooser) {
    chooser.addEventListener("change", () => {
      for (const figure of all("figure[data-figure]")) figure.hidden = figure.dataset.figure !== chooser.value;
    });
  }
  const readout = document.getElementById("readout");
  for (const picture of all("svg.map")) {
    const map = maps[Number(picture.dataset.map)];
    const image = picture.querySelector("image.heat");
    picture.addEventListener("mousemove", (event) => {
      const box = image.getBoundingClientRect();
      const across = (event.clientX - box.left) / box.width;
      const up = 1 - (event.clientY - box.top) / box.height;
      if (across < 0 || across >= 1 || up < 0 || up >= 1) return;
      const line = map.percent[Math.floor(up * map.percent.length)];
      const [left, right, bottom, top] = map.extent;
      const x = left + across * (right - left);
      const y = bottom + up * (top - bottom);
      const p = line[Math.floor(across * line.length)];
      const text = (v, j) => (map.dates[j] ? new Date(v * 864e5).toISOString().slice(0, 10) : String(Number(v.toPrecision(4))));
      readout.textContent =
        `${map.names[0]} = ${text(x, 0)}, ${map.names[1]} = ${text(y, 1)}: P(${map.label}) = ${p} %`;
    });
  }
})();
