// SPDX-License-Identifier: MIT
// Alignment: words of source and translation connected by cross-attention. Hover or focus a word on
// either side to see its counterparts alone.

const FAINT = 0.08; // weaker links are not drawn

const align = {
  id: 'align',
  name: 'Alignment',
  offered: trace => trace.readsWords,

  async render(host, trace, alive) {
    const group = current.group;
    const m = await currentMatrix();
    if (!alive()) return;
    this.matrix = m;
    if (!trace.groups.has('cross'))
      host.append(el('p', {class: 'note'},
        'This model has no cross-attention: keys are above, queries below.'));
    const word = (text, i, query) => {
      const say = () => this.point(i, query);
      return el('button', {class: 'word', onpointerenter: say, onfocus: say, onclick: say},
        el('span', {class: 'label'}, text), el('small', {}, '\u00a0'));
    };
    this.keyRow = el('div', {class: 'sentence keys', lang: ''}, ...m.colLabels.map((t, j) => word(t, j, false)));
    this.queryRow = el('div', {class: 'sentence queries', lang: ''}, ...m.rowLabels.map((t, i) => word(t, i, true)));
    this.links = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
    this.links.setAttribute('class', 'links');
    this.links.setAttribute('aria-hidden', 'true');
    this.pair = el('div', {class: 'pair'}, this.keyRow, this.links, this.queryRow);
    this.pair.addEventListener('pointerleave', () => this.rest());
    const names = group.kind === 'cross' ? ['Source', 'Translation'] : ['Keys', 'Queries'];
    host.append(
      el('section', {class: 'card'},
        el('h2', {}, headTitle(group, state.layer, state.head)),
        el('h3', {class: 'muted'}, names[0]),
        this.pair,
        el('h3', {class: 'muted'}, names[1]),
        el('p', {class: 'muted'}, 'A line is a share of attention, from ' + percentText(FAINT) +
          ' on. Below each word is what it attends to most. Point at a word to see its links alone.')),
      el('section', {class: 'card'}, el('h2', {}, 'Word by word'), this.table(m)));
    this.rest();
    new ResizeObserver(() => this.draw()).observe(this.pair);
  },

  // All links, or those of the word that was chosen.
  rest() {
    this.point(positionOf(current.group.queries, state.token, state.words), true);
  },

  point(i, query) {
    const {rows, cols, data, colLabels} = this.matrix;
    this.pointed = i < 0 ? null : {i, query};
    const paint = (row, weights, most) =>
      [...row.children].forEach((b, n) => {
        const w = weights ? weights(n) : 0, at = most > 0 ? Math.sqrt(w / most) : 0;
        b.style.backgroundColor = weights && at > 0.05 ? scaleColour(at * 0.85) : '';
        b.style.color = weights && at > 0.05 ? inkOn(at * 0.85) : '';
        b.lastChild.textContent = weights && w >= 0.01 ? percentText(w) : '\u00a0';
        b.dataset.weight = weights ? String(w) : '';
      });
    [...this.keyRow.children, ...this.queryRow.children].forEach(b => b.classList.remove('pointed'));
    paint(this.keyRow);
    paint(this.queryRow);
    if (i < 0) {
      [...this.queryRow.children].forEach((b, n) => {
        const [[w, j]] = this.best(this.matrix, n, 1);
        b.lastChild.textContent = w > 0 ? shorten(colLabels[j], 12) : '\u00a0';
      });
    } else if (query) {
      const weights = j => data[i * cols + j];
      paint(this.keyRow, weights, Math.max(...Array.from({length: cols}, (_, j) => weights(j))));
      this.queryRow.children[i].classList.add('pointed');
    } else {
      const weights = q => data[q * cols + i];
      paint(this.queryRow, weights, Math.max(...Array.from({length: rows}, (_, q) => weights(q))));
      this.keyRow.children[i].classList.add('pointed');
    }
    this.draw();
  },

  // The links, if each sentence is on one line.
  draw() {
    const {rows, cols, data} = this.matrix, {links, keyRow, queryRow} = this;
    const oneLine = row => row.lastChild.offsetTop === row.firstChild.offsetTop;
    const fits = rows * cols <= MOST_RECTS && oneLine(keyRow) && oneLine(queryRow);
    links.style.display = fits ? '' : 'none';
    if (!fits) return;
    const box = links.getBoundingClientRect(), height = box.height;
    const middles = row => [...row.children].map(b => {
      const r = b.getBoundingClientRect();
      return r.left + r.width / 2 - box.left;
    });
    const x = middles(keyRow), y = middles(queryRow), paths = [];
    for (let i = 0; i < rows; i++)
      for (let j = 0; j < cols; j++) {
        const w = data[i * cols + j], p = this.pointed;
        if (w < FAINT || (p && (p.query ? p.i !== i : p.i !== j))) continue;
        const path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
        path.setAttribute('d', `M${x[j]} 0C${x[j]} ${height / 2} ${y[i]} ${height / 2} ${y[i]} ${height}`);
        path.setAttribute('stroke-width', (0.8 + 5 * w).toFixed(2));
        path.setAttribute('stroke-opacity', Math.min(1, 0.1 + 0.9 * w).toFixed(2));
        paths.push(path);
      }
    links.replaceChildren(...paths);
  },

  // The strongest keys of every query.
  best(m, i, count) {
    return Array.from({length: m.cols}, (_, j) => [m.data[i * m.cols + j], j])
      .sort((a, b) => b[0] - a[0])
      .slice(0, count);
  },
  table(m) {
    const most = 400, body = el('tbody');
    m.rowLabels.slice(0, most).forEach((label, i) =>
      body.append(el('tr', {}, el('th', {scope: 'row'}, label),
        ...this.best(m, i, 3).map(([w, j]) =>
          el('td', {}, m.colLabels[j], ' ', el('span', {class: 'muted'}, percentText(w)))))));
    return el('div', {class: 'scroll'}, el('table', {class: 'pairs'}, body));
  },

  svg: async () => heatmapSvg(await currentMatrix(), state.shade, currentTitle()),
  async csv() {
    const m = await currentMatrix();
    return csvOf([
      ['query', 'query token', 'key', 'key token', 'weight'],
      ...m.rowLabels.flatMap((label, i) =>
        this.best(m, i, 3).map(([w, j]) => [i, label, j, m.colLabels[j], w])
      ),
    ]);
  },
};
