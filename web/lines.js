// SPDX-License-Identifier: MIT
// Lines between two columns of tokens: one colour per head, several heads at once, only weights
// above a limit, only the selected queries; and for these the sum over them at each key.

const ROW = 24; // CSS pixels of a token
const MOST_LINES = 20000;
const SEVERAL = 'several'; // heads, in the list of heads

const lines = {
  id: 'lines',
  name: 'Lines',
  offered: trace => trace.readsWords,
  heads: new Set(),
  followed: null, // the head of the address that `heads` was made from
  chosen: new Set(),
  limit: 0.1,
  origin: '',

  async render(host, trace, alive) {
    const group = current.group,
      origin = `${trace.description.title} ${state.kind} ${state.words}`;
    if (this.origin !== origin) {
      this.chosen.clear();
      this.origin = origin;
    }
    if (state.token >= 0) this.chosen.add(positionOf(group.queries, state.token, state.words));
    this.followHead(group);
    const chips = el('div', {class: 'chips', role: 'group', 'aria-label': 'Heads'});
    const limit = el('input', {
      type: 'range',
      min: '0',
      max: '100',
      value: String(Math.round(Math.sqrt(this.limit) * 100)),
      id: 'limit',
    });
    const limitText = el('output', {for: 'limit'}, weightText(this.limit));
    const left = el('div', {class: 'tokens queries', role: 'group', 'aria-label': 'Queries'});
    const right = el('div', {class: 'tokens keys', role: 'group', 'aria-label': 'Keys'});
    const canvas = el('canvas'),
      middle = el('div', {class: 'between'}, canvas);
    const box = el('div', {class: 'linebox', tabindex: '0'}, left, middle, right);
    const clear = el(
      'button',
      {
        onclick: () => {
          this.chosen.clear();
          state.token = -1;
          writeHash();
          this.update();
        },
      },
      'All queries'
    );
    host.append(
      el(
        'section',
        {class: 'card'},
        el(
          'div',
          {class: 'bar'},
          chips,
          el('button', {onclick: () => this.chooseHeads(-1)}, 'All heads'),
          clear,
          el('label', {}, 'Hide lines below ', limit, ' ', limitText)
        ),
        box,
        el(
          'p',
          {class: 'muted'},
          'Queries are on the left, the keys that they attend to on the right; a colour is a head. Select ' +
            'one or more queries: the bars at the keys show their sum, averaged over the heads shown.'
        )
      )
    );
    Object.assign(this, {group, box, left, right, canvas, chips, matrices: new Map()});
    for (let h = 0; h < group.heads; h++) chips.append(this.chip(h));
    const first = await group.matrix(state.layer, -1, state.words);
    if (!alive()) return;
    this.shape = first;
    this.fillTokens();
    limit.addEventListener('input', () => {
      this.limit = (Number(limit.value) / 100) ** 2;
      limitText.textContent = weightText(this.limit);
      this.update();
    });
    box.addEventListener('scroll', () => this.draw());
    new ResizeObserver(() => this.draw()).observe(box);
    await this.update();
  },

  // The head that was chosen, or all for the mean; heads chosen one by one stay until another is.
  followHead(group) {
    const chosen = [...this.heads].filter(h => h < group.heads);
    if (this.followed === state.head && chosen.length) return;
    this.followed = state.head;
    this.heads = new Set(state.head >= 0 ? [state.head] : Array.from({length: group.heads}, (_, h) => h));
  },
  chooseHeads(head) {
    this.followed = null;
    go({head});
  },
  chip(h) {
    const chip = el('button', {
      class: 'headchip',
      id: `chip${h}`,
      'aria-pressed': String(this.heads.has(h)),
      onclick: () => this.toggle(h, chip),
    }, String(h));
    chip.style.setProperty('--chip', headColour(h));
    return chip;
  },
  // One head alone or all are in the address, as elsewhere; several are not.
  toggle(h, chip) {
    if (this.heads.has(h)) this.heads.delete(h);
    else this.heads.add(h);
    const count = [...this.heads].filter(other => other < this.group.heads).length;
    if (count === 0 || count === this.group.heads) return void this.chooseHeads(-1);
    if (count === 1) return void this.chooseHeads([...this.heads].find(other => other < this.group.heads));
    this.followed = state.head = -1;
    writeHash();
    $('head').value = SEVERAL;
    chip.setAttribute('aria-pressed', String(this.heads.has(h)));
    this.update();
  },
  isSeveral() {
    const chosen = [...this.heads].filter(h => h < current.group.heads).length;
    return this.followed === state.head && state.head < 0 && chosen > 1 && chosen < current.group.heads;
  },
  fillTokens() {
    const token = (text, i, query) => {
      const button = el(
        query ? 'button' : 'span',
        {class: 'token', title: `${i}`},
        el('span', {class: 'sum'}),
        el('span', {class: 'label'}, text)
      );
      if (!query) return button;
      button.addEventListener('click', () => {
        if (this.chosen.has(i)) this.chosen.delete(i);
        else this.chosen.add(i);
        state.token = this.chosen.has(i) ? tokenAt(this.group.queries, i, state.words) : -1;
        writeHash();
        this.update();
      });
      button.addEventListener('pointerenter', () => {
        this.hovered = i;
        this.draw();
      });
      button.addEventListener('pointerleave', () => {
        this.hovered = -1;
        this.draw();
      });
      return button;
    };
    this.left.replaceChildren(...this.shape.rowLabels.map((t, i) => token(t, i, true)));
    this.right.replaceChildren(...this.shape.colLabels.map((t, j) => token(t, j, false)));
  },

  async update() {
    for (const h of this.heads)
      if (h < this.group.heads && !this.matrices.has(h))
        this.matrices.set(h, await this.group.matrix(state.layer, h, state.words));
    [...this.left.children].forEach((b, i) =>
      b.setAttribute('aria-pressed', String(this.chosen.has(i)))
    );
    const sums = this.sums();
    [...this.right.children].forEach((b, j) => {
      b.firstChild.style.setProperty('--sum', sums ? Math.min(1, sums[j] / Math.max(1, this.chosen.size)) : 0);
      b.title = sums ? `${j}: sum ${weightText(sums[j])}` : `${j}`;
      b.dataset.sum = sums ? String(sums[j]) : '';
    });
    this.draw();
  },
  shownHeads() {
    return [...this.heads]
      .filter(h => h < this.group.heads && this.matrices.has(h))
      .sort((a, b) => a - b);
  },
  // Over the selected queries, averaged over the heads; null if none is selected.
  sums() {
    const heads = this.shownHeads();
    if (!this.chosen.size || !heads.length) return null;
    const {cols} = this.shape,
      sums = new Float64Array(cols);
    for (const h of heads)
      for (const i of this.chosen)
        for (let j = 0; j < cols; j++)
          sums[j] += this.matrices.get(h).data[i * cols + j] / heads.length;
    return sums;
  },
  // [head, query, key, weight] of the visible lines, the strongest last
  links(from = 0, end = Infinity) {
    const {rows, cols} = this.shape,
      found = [];
    const queries =
      this.hovered >= 0
        ? [this.hovered]
        : this.chosen.size
          ? [...this.chosen]
          : Array.from({length: rows}, (_, i) => i);
    for (const h of this.shownHeads()) {
      const {data} = this.matrices.get(h);
      for (const i of queries)
        for (let j = 0; j < cols; j++) {
          const w = data[i * cols + j];
          if (w >= Math.max(this.limit, 1e-6) && ((i >= from && i < end) || (j >= from && j < end)))
            found.push([h, i, j, w]);
        }
    }
    found.sort((a, b) => a[3] - b[3]);
    return found.slice(-MOST_LINES);
  },
  draw() {
    const {box, canvas} = this,
      width = canvas.parentElement.clientWidth,
      height = box.clientHeight;
    const c = sharpContext(canvas, width, height),
      top = box.scrollTop;
    c.clearRect(0, 0, width, height);
    const found = this.links(Math.floor(top / ROW) - 1, Math.ceil((top + height) / ROW) + 1);
    for (const [h, i, j, w] of found) {
      const y0 = (i + 0.5) * ROW - top,
        y1 = (j + 0.5) * ROW - top;
      c.globalAlpha = Math.min(1, 0.12 + 0.88 * w);
      c.strokeStyle = headColour(h);
      c.lineWidth = 0.75 + 2.5 * w;
      c.beginPath();
      c.moveTo(0, y0);
      c.bezierCurveTo(width / 2, y0, width / 2, y1, width, y1);
      c.stroke();
    }
    c.globalAlpha = 1;
    canvas.dataset.lines = String(found.length);
  },

  async svg() {
    const {rows, cols, rowLabels, colLabels} = this.shape,
      parts = [svgText(10, 18, currentTitle(), 'font-size="13"')];
    const top = 30,
      left = 130,
      right = 430;
    rowLabels.forEach((t, i) =>
      parts.push(svgText(left - 8, top + (i + 0.65) * ROW, shorten(t, 16), 'text-anchor="end"'))
    );
    colLabels.forEach((t, j) =>
      parts.push(svgText(right + 8, top + (j + 0.65) * ROW, shorten(t, 16)))
    );
    for (const [h, i, j, w] of this.links()) {
      const y0 = top + (i + 0.5) * ROW,
        y1 = top + (j + 0.5) * ROW,
        middle = (left + right) / 2;
      parts.push(
        `<path d="M${left} ${y0}C${middle} ${y0} ${middle} ${y1} ${right} ${y1}" fill="none" ` +
          `stroke="${headColour(h)}" stroke-width="${(0.75 + 2.5 * w).toFixed(2)}" ` +
          `stroke-opacity="${Math.min(1, 0.12 + 0.88 * w).toFixed(3)}"/>`
      );
    }
    return svgPage(right + left, top + Math.max(rows, cols) * ROW + 10, parts.join(''));
  },
  async csv() {
    const {rowLabels, colLabels} = this.shape;
    return csvOf([
      ['head', 'query', 'query token', 'key', 'key token', 'weight'],
      ...this.links()
        .reverse()
        .map(([h, i, j, w]) => [h, i, rowLabels[i], j, colLabels[j], w]),
    ]);
  },
};
