// SPDX-License-Identifier: MIT
// Alignment: words of source and translation connected by cross-attention. Hover or focus a word on
// either side to see its counterparts alone. The sentences are two rows or, where they do not fit on
// one line each, two columns.

const FAINT = 0.08; // weaker links are not drawn

// From a key at one side to a query at the other, `far` away: down, or to the right.
const linkPath = (key, query, far, columns) =>
  columns
    ? `M0 ${key}C${far / 2} ${key} ${far / 2} ${query} ${far} ${query}`
    : `M${key} 0C${key} ${far / 2} ${query} ${far / 2} ${query} ${far}`;
const linkWidth = w => (0.8 + 5 * w).toFixed(2);
const linkOpacity = w => Math.min(1, 0.1 + 0.9 * w).toFixed(2);

const align = {
  id: 'align',
  name: 'Alignment',
  offered: trace => trace.readsWords,

  async render(host, trace, alive) {
    const group = current.group;
    const m = await currentMatrix();
    if (!alive()) return;
    this.matrix = m;
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
    const cross = group.kind === 'cross', names = cross ? ['Source', 'Translation'] : ['Keys', 'Queries'];
    this.pair = el('div', {class: 'pair'}, el('h3', {class: 'muted keyside'}, names[0]), this.keyRow, this.links,
      this.queryRow, el('h3', {class: 'muted queryside'}, names[1]));
    this.pair.addEventListener('pointerleave', () => this.rest());
    this.caption = el('p', {class: 'muted'});
    host.append(el('div', {class: 'aligned'},
      el('section', {class: 'card'},
        el('h2', {}, headTitle(group, state.layer, state.head)), offNote(group, state.layer, state.head),
        cross ? null : el('p', {class: 'note'},
          'This model has no cross-attention: the lines are from the queries to the keys of one text.'),
        this.pair, this.caption),
      el('section', {class: 'card'}, el('h2', {}, 'Word by word'), this.table(m))));
    this.width = 0;
    this.arrange();
    this.rest();
    new ResizeObserver(() => {
      this.arrange();
      this.draw();
    }).observe(this.pair);
  },

  // Two rows, or two columns if a row would need a second line.
  arrange() {
    const {pair, keyRow, queryRow} = this, width = pair.clientWidth;
    if (width === this.width) return;
    this.width = width;
    const oneLine = row => row.lastChild.offsetTop === row.firstChild.offsetTop;
    pair.classList.remove('columns');
    this.columns = !oneLine(keyRow) || !oneLine(queryRow);
    pair.classList.toggle('columns', this.columns);
    this.caption.textContent = (this.drawable()
      ? `A line is a share of attention of ${Math.round(100 * FAINT)} % or more, thicker for more. ` : '') +
      `${this.columns ? 'Beside' : 'Below'} each word is what it attends to most. Point at a word to see ` +
      (this.drawable() ? 'its lines alone.' : 'its counterparts.');
  },
  // Lines between all pairs of very long texts would be too many to draw.
  drawable() {
    return this.matrix.rows * this.matrix.cols <= MOST_RECTS;
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

  draw() {
    const {links, keyRow, queryRow, columns} = this;
    links.style.display = this.drawable() ? '' : 'none';
    if (!this.drawable()) return;
    const box = links.getBoundingClientRect();
    const middles = row => [...row.children].map(b => {
      const r = b.getBoundingClientRect();
      return columns ? r.top + r.height / 2 - box.top : r.left + r.width / 2 - box.left;
    });
    const keys = middles(keyRow), queries = middles(queryRow);
    links.replaceChildren(...this.shownLinks().map(({i, j, w}) => {
      const path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
      path.setAttribute('d', linkPath(keys[j], queries[i], columns ? box.width : box.height, columns));
      path.setAttribute('stroke-width', linkWidth(w));
      path.setAttribute('stroke-opacity', linkOpacity(w));
      return path;
    }));
  },
  // Those strong enough, of the word that is pointed at or of all.
  shownLinks() {
    const {rows, cols, data} = this.matrix, p = this.pointed, found = [];
    for (let i = 0; i < rows; i++)
      for (let j = 0; j < cols; j++) {
        const w = data[i * cols + j];
        if (w >= FAINT && !(p && (p.query ? p.i !== i : p.i !== j))) found.push({i, j, w});
      }
    return found;
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

  // Both sentences in rows, or in columns if that would be very wide.
  async svg() {
    const {rowLabels, colLabels} = this.matrix, most = 1000;
    const texts = labels => labels.map(t => shorten(t, 24)), room = t => 22 + 7.5 * t.length;
    const keys = texts(colLabels), queries = texts(rowLabels), wide = list => list.reduce((n, t) => n + room(t), 0);
    const columns = Math.max(wide(keys), wide(queries)) > most;
    const far = columns ? 260 : 150, width = Math.max(wide(keys), wide(queries)), side = 150;
    const middles = list => {
      if (columns) return list.map((_, n) => 22 * n + 11);
      let at = (width - wide(list)) / 2;
      return list.map(t => (at += room(t)) - room(t) / 2);
    };
    const k = middles(keys), q = middles(queries), labels = (list, at, y, anchor) =>
      list.map((t, n) => (columns
        ? svgText(anchor === 'end' ? side - 10 : side + far + 10, at[n] + 5, t, `font-size="13" text-anchor="${anchor}"`)
        : svgText(at[n], y, t, 'font-size="13" text-anchor="middle"'))).join('');
    const lines = this.shownLinks().map(({i, j, w}) =>
      `<path d="${linkPath(k[j], q[i], far, columns)}" stroke-width="${linkWidth(w)}" stroke-opacity="${linkOpacity(w)}"/>`);
    const top = columns ? 40 : 60;
    const body = svgText(10, 18, currentTitle(), 'font-size="13"') +
      `<g transform="translate(${columns ? 0 : 15} ${top})">` +
      labels(keys, k, -8, 'end') + labels(queries, q, far + 18, 'start') +
      `<g transform="translate(${columns ? side : 0} 0)" fill="none" stroke="${cssColour('--accent')}">${lines.join('')}</g></g>`;
    return columns
      ? svgPage(2 * side + far, top + 22 * Math.max(keys.length, queries.length) + 10, body)
      : svgPage(Math.max(width + 30, 7 * currentTitle().length + 20), top + far + 40, body);
  },
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
