// SPDX-License-Identifier: MIT
// Heatmap of one head: zoom, pan, values on hover. The matrix is drawn from tiles of 512 x 512
// pixels at the half, quarter, ... size that fits the zoom; a tile is rendered when first visible,
// so that 2,048 x 2,048 weights pan as smoothly as ten.

const TILE = 512,
  ROW_KEYS = 14,
  ROW_HEIGHT = 18; // at which rows have their words

class Pyramid {
  constructor(matrix, shade) {
    this.levels = [shadeMatrix(matrix, shade)];
    this.tiles = new Map();
  }
  level(n) {
    while (this.levels.length <= n) this.levels.push(halve(this.levels[this.levels.length - 1]));
    return this.levels[n];
  }
  // Draws the cells into the rectangle at (x, y); a cell is `scale` CSS pixels wide, and `stretch`
  // times as high.
  draw(context, x, y, scale, stretch, width, height) {
    let n = 0;
    while (scale * 2 ** n * (window.devicePixelRatio || 1) < 0.75) n++;
    const level = this.level(n),
      size = scale * 2 ** n;
    context.imageSmoothingEnabled = false;
    for (let ty = 0; ty < level.rows; ty += TILE)
      for (let tx = 0; tx < level.cols; tx += TILE) {
        const w = Math.min(TILE, level.cols - tx),
          h = Math.min(TILE, level.rows - ty);
        const left = x + tx * size,
          top = y + ty * size * stretch;
        if (left > width || top > height || left + w * size < 0 || top + h * size * stretch < 0) continue;
        const key = `${n} ${tx} ${ty}`;
        if (!this.tiles.has(key)) this.tiles.set(key, shadeCanvas(level, tx, ty, w, h));
        context.drawImage(this.tiles.get(key), left, top, w * size, h * size * stretch);
      }
  }
}

const heatmap = {
  id: 'heatmap',
  name: 'Heatmap',

  async render(host, trace, alive) {
    const group = current.group;
    const matrix = await currentMatrix();
    if (!alive()) return;
    const canvas = el('canvas', {
      tabindex: '0',
      role: 'img',
      'aria-label': 'Heatmap. Arrow keys move, plus and minus zoom, 0 shows all.',
    });
    const readout = el('p', {class: 'readout', 'aria-live': 'polite'}, bestSentence(group, matrix));
    const stage = el('div', {class: 'stage'}, canvas),
      row = el('aside', {class: 'row'});
    host.append(
      el(
        'section',
        {class: 'card'},
        offNote(group, state.layer, state.head),
        el('div', {class: 'plot'}, stage, row),
        readout,
        heatmap.legend(
          'Drag to move; wheel, pinch or + − to zoom; 0 shows all, arrows move by one cell.'
        )
      )
    );
    heatmap.shown = new HeatmapStage(stage, canvas, readout, row, matrix, {
      pinned: positionOf(group.queries, state.token, state.words),
      listed: (clearestCell(group, matrix) || {i: -1}).i,
      pin: position => {
        state.token = tokenAt(group.queries, position, state.words);
        writeHash();
      },
    });
  },

  legend(more = '') {
    const bar = el('canvas', {width: 256, height: 1, class: 'ramp'});
    const shades = {rows: 1, cols: 256, shades: Uint8Array.from({length: 256}, (_, i) => i)};
    bar.getContext('2d').drawImage(shadeCanvas(shades, 0, 0, 256, 1), 0, 0);
    const ticks = shadeTicks(state.shade);
    return el(
      'div',
      {class: 'legend'},
      el('div', {}, bar, el('div', {class: 'ticks'}, ...ticks.map(t => el('span', {}, String(t))))),
      el(
        'span',
        {class: 'muted'},
        'Each row is a query: its shades say how much it attends to each column, and sum to 1. ' + more
      )
    );
  },

  svg: async () => heatmapSvg(await currentMatrix(), state.shade, currentTitle()),
  csv: async () => matrixCsv(await currentMatrix()),
};

class HeatmapStage {
  // `pinned`: a row that stays marked; pin(row) is told of another, -1 of none. `listed`: the row whose
  // keys are listed without one. `still`: shows all, and leaves wheel and fingers to the page.
  constructor(stage, canvas, readout, row, matrix, {pinned = -1, pin = null, listed = -1, still = false} = {}) {
    Object.assign(this, {stage, canvas, readout, row, matrix, pinned, pin, first: listed, still});
    this.rest = readout.textContent; // what is said while no cell is pointed at
    this.pyramid = new Pyramid(matrix, state.shade);
    this.cell = {row: pinned, col: -1};
    this.pointers = new Map();
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(stage);
    canvas.addEventListener('pointerdown', e => this.press(e));
    canvas.addEventListener('pointermove', e => this.move(e));
    canvas.addEventListener('pointerup', e => this.release(e));
    canvas.addEventListener('pointercancel', e => this.release(e));
    canvas.addEventListener('pointerleave', () => {
      this.cell = {row: this.pinned, col: -1};
      this.say();
      this.schedule();
    });
    if (!still) canvas.addEventListener('wheel', e => this.wheel(e), {passive: false});
    canvas.addEventListener('keydown', e => this.key(e));
    this.resize();
    this.listRow(pinned);
  }

  // The strongest keys of a query, next to the map if there is room.
  listRow(query) {
    if (!this.row) return;
    if (query < 0) query = this.first;
    const {cols, data, rowLabels, colLabels} = this.matrix;
    const hint = el('p', {class: 'muted'}, 'Point at a row to see what it attends to; click to pin it.');
    if (query < 0) {
      this.row.replaceChildren(hint);
      return;
    }
    const weights = data.subarray(query * cols, (query + 1) * cols),
      least = [...weights].sort((a, b) => b - a)[Math.min(cols, ROW_KEYS) - 1];
    const best = [];
    for (let j = 0; j < cols; j++) if (weights[j] >= least && weights[j] > 0) best.push(j);
    best.sort((a, b) => weights[b] - weights[a]);
    this.row.replaceChildren(
      el('h3', {}, `${rowLabels[query]} →`),
      el(
        'ol',
        {},
        ...best.slice(0, ROW_KEYS).map(j => {
          const bar = el('span', {class: 'sum'});
          bar.style.width = `${Math.min(100, 100 * weights[j])}%`;
          bar.style.position = 'absolute';
          return el(
            'li',
            {},
            bar,
            el('span', {}, colLabels[j]),
            el('span', {}, weightText(weights[j]))
          );
        })
      ),
      hint
    );
  }

  resize() {
    if (!this.stage.isConnected) {
      // another view has replaced it
      this.observer.disconnect();
      return;
    }
    const {rows, cols, rowLabels, colLabels} = this.matrix;
    const longest = labels =>
      Math.min(14, Math.max(1, ...labels.slice(0, 4000).map(l => l.length)));
    this.top = 14 + 6.6 * longest(colLabels);
    const highest = (Math.max(innerHeight * (this.still ? 0.6 : 0.78), 320) - this.top) / rows;
    const room = 14 + 7 * longest(rowLabels);
    this.stage.style.maxWidth = `${Math.ceil(room + cols * Math.min(64, Math.max(highest, ROW_HEIGHT)) + 4)}px`;
    this.width = this.stage.clientWidth; // what is beside the map is next to it
    this.left = Math.min(this.width * 0.3, room);
    const most = Math.min(64, (this.width - this.left) / cols);
    this.fit = Math.min(most, highest);
    // moments of sound are many: cells may be higher than wide
    this.stretch = cols > 2 * rows ? Math.max(1, Math.min(ROW_HEIGHT, highest) / this.fit) : 1;
    this.height = Math.round(this.top + rows * this.fit * this.stretch + 2);
    if (!this.scale || this.scale < this.fit || !this.moved) this.showAll();
    this.draw();
  }
  showAll() {
    this.scale = this.fit;
    this.x = 0;
    this.y = 0;
    this.moved = false;
  }

  // Keeps the matrix within the plot.
  clamp() {
    const {rows, cols} = this.matrix;
    this.scale = Math.min(Math.max(this.scale, this.fit), Math.max(64, this.fit));
    const least = (size, room) => Math.min(0, room - size);
    this.x = Math.min(0, Math.max(this.x, least(cols * this.scale, this.width - this.left)));
    this.y = Math.min(0, Math.max(this.y, least(rows * this.scale * this.stretch, this.height - this.top)));
  }
  zoom(factor, px, py) {
    const old = this.scale,
      ax = px - this.left,
      ay = py - this.top;
    this.scale = Math.min(Math.max(old * factor, this.fit), Math.max(64, this.fit));
    this.x = ax - ((ax - this.x) * this.scale) / old;
    this.y = ay - ((ay - this.y) * this.scale) / old;
    this.moved = true;
    this.clamp();
    this.schedule();
  }
  schedule() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.draw();
    });
  }

  draw() {
    const c = sharpContext(this.canvas, this.width, this.height),
      {rows, cols} = this.matrix;
    this.clamp();
    c.clearRect(0, 0, this.width, this.height);
    c.save();
    c.beginPath();
    c.rect(this.left, this.top, this.width - this.left, this.height - this.top);
    c.clip();
    const x = this.left + this.x,
      y = this.top + this.y,
      s = this.scale,
      high = s * this.stretch;
    this.pyramid.draw(c, x, y, s, this.stretch, this.width, this.height);
    if (s >= 12) this.drawGrid(c, x, y);
    if (s >= 34) this.drawValues(c, x, y);
    c.lineWidth = 2;
    c.strokeStyle = cssColour('--mark');
    if (this.pinned >= 0) c.strokeRect(x, y + this.pinned * high, cols * s, high);
    if (this.cell.row >= 0 && this.cell.col >= 0)
      c.strokeRect(x + this.cell.col * s, y + this.cell.row * high, Math.max(s, 3), Math.max(high, 3));
    c.restore();
    c.strokeStyle = cssColour('--line');
    c.lineWidth = 1;
    c.strokeRect(
      this.left - 0.5,
      this.top - 0.5,
      Math.min(cols * s + x - this.left, this.width - this.left) + 1,
      Math.min(rows * high + y - this.top, this.height - this.top) + 1
    );
    this.drawLabels(c, x, y);
    // all visible: a finger scrolls the page; zoomed in: it pans the map
    this.canvas.style.touchAction = !this.still && s > this.fit * 1.01 ? 'none' : 'pan-y';
    this.canvas.dataset.drawn = String(Number(this.canvas.dataset.drawn || 0) + 1);
  }
  // Of visible rows, and of visible columns.
  ranges() {
    const range = (start, room, size, count) => [
      Math.max(0, Math.floor(-start / size)),
      Math.min(count, Math.ceil((room - start) / size)),
    ];
    return [
      range(this.y, this.height - this.top, this.scale * this.stretch, this.matrix.rows),
      range(this.x, this.width - this.left, this.scale, this.matrix.cols),
    ];
  }
  drawGrid(c, x, y) {
    const {rows, cols} = this.matrix,
      s = this.scale,
      high = s * this.stretch;
    c.strokeStyle = cssColour('--grid');
    c.lineWidth = 1;
    c.beginPath();
    for (let i = 1; i < rows; i++) {
      c.moveTo(x, y + i * high);
      c.lineTo(x + cols * s, y + i * high);
    }
    for (let j = 1; j < cols; j++) {
      c.moveTo(x + j * s, y);
      c.lineTo(x + j * s, y + rows * high);
    }
    c.stroke();
  }
  drawValues(c, x, y) {
    const {cols, data} = this.matrix,
      s = this.scale,
      high = s * this.stretch,
      shades = this.pyramid.levels[0].shades;
    const [[i0, i1], [j0, j1]] = this.ranges();
    c.font = '11px system-ui, sans-serif';
    c.textAlign = 'center';
    c.textBaseline = 'middle';
    for (let i = i0; i < i1; i++)
      for (let j = j0; j < j1; j++) {
        const at = i * cols + j;
        if (data[at] < 0.005) continue;
        c.fillStyle = inkOn(shades[at] / 255);
        c.fillText(data[at].toFixed(2).replace(/^0/, ''), x + (j + 0.5) * s, y + (i + 0.5) * high);
      }
  }
  drawLabels(c, x, y) {
    const {rowLabels, colLabels} = this.matrix,
      s = this.scale,
      high = s * this.stretch;
    const [[i0, i1], [j0, j1]] = this.ranges();
    const apart = size => Math.max(1, Math.ceil(12 / size)), // labels
      everyRow = apart(high),
      everyColumn = apart(s),
      ink = cssColour('--ink'),
      muted = cssColour('--muted');
    c.font = '12px system-ui, sans-serif';
    c.textBaseline = 'middle';
    c.textAlign = 'right';
    for (let i = Math.ceil(i0 / everyRow) * everyRow; i < i1; i += everyRow) {
      const middle = y + (i + 0.5) * high;
      if (middle < this.top) continue;
      c.fillStyle = i === this.cell.row || i === this.pinned ? ink : muted;
      c.fillText(shorten(rowLabels[i], 14), this.left - 6, middle, this.left - 8);
    }
    c.textAlign = 'left';
    for (let j = Math.ceil(j0 / everyColumn) * everyColumn; j < j1; j += everyColumn) {
      const middle = x + (j + 0.5) * s;
      if (middle < this.left) continue;
      c.save();
      c.translate(middle, this.top - 6);
      c.rotate(-Math.PI / 2);
      c.fillStyle = j === this.cell.col ? ink : muted;
      c.fillText(shorten(colLabels[j], 14), 0, 0, this.top - 8);
      c.restore();
    }
  }

  // ---- pointer and keys ----
  cellAt(event) {
    const box = this.canvas.getBoundingClientRect(),
      {rows, cols} = this.matrix;
    const px = event.clientX - box.left - this.left,
      py = event.clientY - box.top - this.top;
    const col = Math.floor((px - this.x) / this.scale),
      row = Math.floor((py - this.y) / (this.scale * this.stretch));
    return px >= 0 && py >= 0 && col >= 0 && col < cols && row >= 0 && row < rows
      ? {row, col}
      : {row: -1, col: -1};
  }
  say(event) {
    const {row, col} = this.cell,
      m = this.matrix;
    if (row < 0 || col < 0) {
      this.readout.textContent = this.rest;
      hideTip();
      return;
    }
    const value = m.data[row * m.cols + col];
    this.readout.textContent =
      `${row} “${m.rowLabels[row]}” → ${col} “${m.colLabels[col]}”: ${weightText(value)}`;
    this.readout.dataset.value = String(value);
    if (this.listed !== row) this.listRow((this.listed = row));
    if (event) showTip(event, `${m.rowLabels[row]} → ${m.colLabels[col]}`, weightText(value));
  }
  press(event) {
    if (!this.still) this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, {x: event.clientX, y: event.clientY});
    this.dragged = 0;
  }
  move(event) {
    const last = this.pointers.get(event.pointerId);
    if (last && !this.still) {
      const dx = event.clientX - last.x,
        dy = event.clientY - last.y;
      if (this.pointers.size === 2) this.pinch(event);
      else {
        this.x += dx;
        this.y += dy;
        this.moved = true;
      }
      this.dragged += Math.abs(dx) + Math.abs(dy);
      this.pointers.set(event.pointerId, {x: event.clientX, y: event.clientY});
    }
    this.cell = this.cellAt(event);
    this.say(event);
    this.schedule();
  }
  pinch(event) {
    const box = this.canvas.getBoundingClientRect(),
      other = [...this.pointers].find(([id]) => id !== event.pointerId)[1];
    const before = this.pointers.get(event.pointerId),
      distance = p => Math.hypot(p.x - other.x, p.y - other.y);
    const factor = distance({x: event.clientX, y: event.clientY}) / Math.max(1, distance(before));
    this.zoom(
      factor,
      (event.clientX + other.x) / 2 - box.left,
      (event.clientY + other.y) / 2 - box.top
    );
  }
  release(event) {
    this.pointers.delete(event.pointerId);
    if (this.dragged < 4 && event.type === 'pointerup') {
      const {row} = this.cellAt(event);
      if (row >= 0) {
        this.setPinned(this.pinned === row ? -1 : row);
      }
    }
  }
  setPinned(row) {
    this.pinned = row;
    if (this.pin) this.pin(row);
    this.listRow(row);
    this.schedule();
  }
  wheel(event) {
    event.preventDefault();
    const box = this.canvas.getBoundingClientRect();
    this.zoom(
      Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.002)),
      event.clientX - box.left,
      event.clientY - box.top
    );
  }
  key(event) {
    const {rows, cols} = this.matrix,
      step = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[
        event.key
      ];
    if (step) {
      this.cell = {
        row: Math.min(Math.max(this.cell.row + step[0], 0), rows - 1),
        col: Math.min(Math.max(this.cell.col + step[1], 0), cols - 1),
      };
      const s = this.scale,
        high = s * this.stretch,
        px = this.x + this.cell.col * s,
        py = this.y + this.cell.row * high;
      if (px < 0) this.x -= px;
      if (py < 0) this.y -= py;
      if (px + s > this.width - this.left) this.x -= px + s - (this.width - this.left);
      if (py + high > this.height - this.top) this.y -= py + high - (this.height - this.top);
      this.say();
    } else if (!this.still && (event.key === '+' || event.key === '='))
      this.zoom(
        1.5,
        this.left + (this.width - this.left) / 2,
        this.top + (this.height - this.top) / 2
      );
    else if (!this.still && event.key === '-')
      this.zoom(
        1 / 1.5,
        this.left + (this.width - this.left) / 2,
        this.top + (this.height - this.top) / 2
      );
    else if (event.key === '0') this.showAll();
    else if (event.key === 'Enter' && this.cell.row >= 0) {
      this.setPinned(this.cell.row);
    } else return;
    event.preventDefault();
    this.schedule();
  }
}
