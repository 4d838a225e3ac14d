// SPDX-License-Identifier: MIT
// Picture: attention over the picture that a vision model read. The patches are the last tokens of
// encoder.self, row by row; one of its tokens, the class token at first, is the query:
//
//     one head          its weights for the patches, over the picture
//     rollout           the query's row of (A_L + I)/2 ... (A_1 + I)/2, A_l the mean of layer l's
//                       heads: attention followed through all layers and residual connections
//     every head        the same as small maps
//
// Colour is the root of a weight relative to the map's largest; of rollout, which is never far from
// even, it is the position from the smallest to the largest.

const HEAT = '255, 96, 0',
  HEAT_MOST = 0.85, // opacity of the largest weight
  LARGE_MAP = 420, // pixels
  SMALL_MAP = 72,
  MAPS_AT_ONCE = 16;

const pictureView = {
  id: 'picture',
  name: 'Picture',
  offered: trace => Boolean(trace.description.picture),

  // What a page with a picture opens with: the last layer's mean unless it says otherwise.
  start: (trace, {layer = trace.groups.get('encoder.self').layers - 1, head = -1}) => ({
    view: 'picture',
    kind: 'encoder.self',
    layer,
    head,
  }),

  async render(host, trace, alive) {
    const shown = await PictureMaps.of(trace);
    if (!alive()) return;
    const stage = new PictureStage(shown, state.layer, state.head, state.token);
    host.append(el('div', {class: 'pictured'}, stage.section, stage.allHeads()));
    await stage.draw();
    if (!alive()) return;
    await stage.drawRollout();
    if (alive()) await stage.drawHeads(alive);
  },

  // What is exported: the two large maps.
  async maps() {
    const shown = await PictureMaps.of(current.trace),
      query = Math.max(0, state.token);
    const one = await shown.weights(state.layer, state.head, query);
    return {shown, query, one, rollout: await shown.rollout(query)};
  },

  async svg() {
    const {shown, query, one, rollout} = await this.maps(),
      {width, height} = shown.sizeWithin(LARGE_MAP);
    const image = (weights, x, title) => {
      const canvas = el('canvas');
      shown.paint(canvas, weights, LARGE_MAP, query, weights === rollout);
      return (
        svgText(x, 20, title, 'font-size="13"') +
        `<image x="${x}" y="32" width="${width}" height="${height}" href="${canvas.toDataURL()}"/>`
      );
    };
    return svgPage(
      2 * width + 36,
      height + 44,
      image(one, 12, `Layer ${state.layer}, ${headName(state.head)}, from ${shown.name(query)}`) +
        image(rollout, width + 24, `Rollout, from ${shown.name(query)}`)
    );
  },

  async csv() {
    const {shown, one, rollout} = await this.maps();
    return csvOf([
      ['row', 'column', `layer ${state.layer}, ${headName(state.head)}`, 'rollout'],
      ...Array.from({length: shown.rows * shown.columns}, (_, i) => [
        Math.floor(i / shown.columns),
        i % shown.columns,
        one[shown.first + i],
        rollout[shown.first + i],
      ]),
    ]);
  },
};

// The picture of a trace, and the weights of its tokens.
class PictureMaps {
  static of(trace) {
    return trace.keep('picture', 1, async () => {
      const described = trace.description.picture;
      return new PictureMaps(trace, described, new Uint8Array(await trace.chunk(described.chunk)));
    });
  }

  constructor(trace, {width, height, rows, columns}, rgb) {
    Object.assign(this, {width, height, rows, columns, group: trace.groups.get('encoder.self')});
    this.first = this.group.rows - rows * columns; // the token of patch 0, 0
    this.canvas = el('canvas', {width, height});
    const context = this.canvas.getContext('2d'),
      image = context.createImageData(width, height);
    for (let i = 0, to = 0; i < rgb.length; i += 3, to += 4) {
      image.data.set(rgb.subarray(i, i + 3), to);
      image.data[to + 3] = 255;
    }
    context.putImageData(image, 0, 0);
  }

  name(token) {
    return patchName(tokenText(this.group.queries.tokens[token]));
  }

  // A token's weights for all tokens; head -1: the mean of all.
  async weights(layer, head, query) {
    const {data, cols} = await this.group.head(layer, head);
    return data.subarray(query * cols, (query + 1) * cols);
  }

  // Row `query` of the product, from the left: a vector times a matrix for each layer.
  async rollout(query) {
    const count = this.group.cols;
    let row = new Float64Array(count);
    row[query] = 1;
    for (let layer = this.group.layers - 1; layer >= 0; layer--) {
      const {data} = await this.group.head(layer, -1),
        next = row.map(x => x / 2);
      row.forEach((x, i) => {
        for (let j = 0, at = i * count; j < count; j++, at++) next[j] += (x / 2) * data[at];
      });
      row = next;
    }
    return row;
  }

  largest(weights) {
    return weights.subarray(this.first).reduce((most, w) => Math.max(most, w), 0);
  }

  sizeWithin(most) {
    const scale = most / Math.max(this.width, this.height);
    return {
      width: Math.max(1, Math.round(this.width * scale)),
      height: Math.max(1, Math.round(this.height * scale)),
    };
  }

  // The rectangle of patch i in a map of this size, on whole pixels.
  patchBox(i, width, height) {
    const row = Math.floor(i / this.columns),
      column = i % this.columns;
    const x = Math.round((column * width) / this.columns),
      y = Math.round((row * height) / this.rows);
    return [
      x,
      y,
      Math.round(((column + 1) * width) / this.columns) - x,
      Math.round(((row + 1) * height) / this.rows) - y,
    ];
  }

  // A function of a patch: 0 to 1.
  shades(weights, spread) {
    const patches = weights.subarray(this.first),
      most = this.largest(weights);
    if (!spread) return i => (most > 0 ? Math.sqrt(patches[i] / most) : 0);
    const least = patches.reduce((a, b) => Math.min(a, b), most);
    return i => (most > least ? (patches[i] - least) / (most - least) : 0);
  }

  // The picture with the weights over it, and the query's patch marked.
  paint(canvas, weights, size, query, spread = false) {
    const {width, height} = this.sizeWithin(size),
      context = canvas.getContext('2d'),
      shade = this.shades(weights, spread);
    canvas.width = width;
    canvas.height = height;
    context.imageSmoothingEnabled = width < this.width;
    context.drawImage(this.canvas, 0, 0, width, height);
    for (let i = 0; i < this.rows * this.columns; i++) {
      context.fillStyle = `rgba(${HEAT}, ${HEAT_MOST * shade(i)})`;
      context.fillRect(...this.patchBox(i, width, height));
    }
    if (query >= this.first) this.outline(context, query - this.first, cssColour('--mark'));
  }

  outline(context, i, colour) {
    const {width, height} = context.canvas,
      [x, y, w, h] = this.patchBox(i, width, height);
    context.lineWidth = Math.max(1, Math.min(w, h) / 12);
    context.strokeStyle = '#000';
    context.strokeRect(x, y, w, h);
    context.lineWidth /= 2;
    context.strokeStyle = colour;
    context.strokeRect(x, y, w, h);
  }
}

class PictureStage {
  constructor(shown, layer, head, token) {
    Object.assign(this, {shown, layer, head, pinned: token, query: Math.max(0, token)});
    this.pointed = -1; // a patch
    this.one = this.map();
    this.rolled = this.map();
    this.readout = el('p', {class: 'readout', 'aria-live': 'polite'});
    const from = ` from ${shown.name(this.query)}`;
    this.section = el(
      'section',
      {class: 'card'},
      this.queries(),
      el(
        'div',
        {class: 'maps'},
        this.figure(this.one, `Layer ${layer}, ${headName(head)}`, from),
        this.figure(this.rolled, 'Rollout', `${from}, through all layers`)
      ),
      this.readout,
      el(
        'p',
        {class: 'muted'},
        'The stronger the colour, the more attention a patch gets. ' +
          (shown.first ? `${shown.name(0)}, the class token, is no patch: it collects what the whole picture shows. ` : '') +
          'Rollout follows attention through all layers. Point at a patch for its weight; click on it, or ' +
          'press Enter, to see where that patch attends.'
      )
    );
  }

  // The tokens that are no patches, and the patch that was chosen.
  queries() {
    const choice = (token, text) =>
      el(
        'button',
        {'aria-pressed': String(token === this.query), onclick: () => go({token})},
        text
      );
    const others = Array.from({length: this.shown.first}, (_, i) => choice(i, this.shown.name(i)));
    if (this.query >= this.shown.first)
      others.push(choice(this.query, this.shown.name(this.query)));
    return el('div', {class: 'chips from', role: 'group', 'aria-label': 'Attention from'}, ...others);
  }

  map() {
    const canvas = el('canvas', {
      tabindex: '0',
      role: 'img',
      'aria-label': 'Picture with weights. Arrow keys move from patch to patch, Enter chooses one.',
    });
    canvas.addEventListener('pointermove', e => this.point(this.patchAt(e), e));
    canvas.addEventListener('pointerleave', () => this.point(-1));
    canvas.addEventListener('click', e => this.choose(this.patchAt(e)));
    canvas.addEventListener('keydown', e => this.key(e));
    return {canvas, weights: null, share: el('span', {class: 'muted'})};
  }

  figure({canvas, share}, title, more) {
    return el(
      'figure',
      {},
      canvas,
      el('figcaption', {}, el('b', {}, title), el('span', {class: 'muted'}, more), el('br'), share)
    );
  }

  paint(map) {
    this.shown.paint(map.canvas, map.weights, LARGE_MAP, this.query, map === this.rolled);
    if (this.pointed >= 0)
      this.shown.outline(map.canvas.getContext('2d'), this.pointed, '#fff');
  }

  // How much goes to tokens that are no patches, and what full colour means.
  say(map) {
    const {shown} = this,
      rest = map.weights.subarray(0, shown.first).reduce((a, b) => a + b, 0);
    const names = Array.from({length: Math.min(shown.first, 2)}, (_, i) => shown.name(i));
    map.share.textContent =
      `strongest colour: ${(100 * shown.largest(map.weights)).toFixed(1)} %` +
      (shown.first ? `; ${names.join(', ')}${shown.first > 2 ? ', …' : ''} gets ${percentText(rest)}` : '');
  }

  async draw() {
    this.one.weights = await this.shown.weights(this.layer, this.head, this.query);
    this.paint(this.one);
    this.say(this.one);
  }

  async drawRollout() {
    this.rolled.weights = await this.shown.rollout(this.query);
    this.paint(this.rolled);
    this.say(this.rolled);
  }

  // ---- every head ----

  allHeads() {
    const {group} = this.shown,
      grid = el('div', {class: 'grid'});
    grid.style.gridTemplateColumns = `2.6rem repeat(${group.heads + 1}, minmax(46px, ${SMALL_MAP}px))`;
    grid.append(el('span', {class: 'muted corner'}, 'layer'));
    for (let h = 0; h <= group.heads; h++)
      grid.append(el('span', {class: 'muted head'}, h < group.heads ? String(h) : 'mean'));
    this.small = [];
    for (let layer = 0; layer < group.layers; layer++) {
      grid.append(el('span', {class: 'muted layer'}, String(layer)));
      for (let h = 0; h <= group.heads; h++) {
        const head = h < group.heads ? h : -1,
          canvas = el('canvas', {width: 1, height: 1});
        const button = el(
          'button',
          {
            class: 'thumb',
            onclick: () => go({layer, head}),
            'aria-label': `Layer ${layer}, ${headName(head)}`,
            'aria-pressed': String(layer === this.layer && head === this.head),
          },
          canvas
        );
        grid.append(button);
        this.small.push({layer, head, canvas});
      }
    }
    return el('section', {class: 'card'}, el('h2', {}, 'Every head'), el('div', {class: 'scroll'}, grid));
  }

  async drawHeads(alive) {
    for (let at = 0; at < this.small.length && alive(); at += MAPS_AT_ONCE)
      await Promise.all(
        this.small.slice(at, at + MAPS_AT_ONCE).map(async ({layer, head, canvas}) => {
          this.shown.paint(canvas, await this.shown.weights(layer, head, this.query), SMALL_MAP, this.query);
          canvas.dataset.done = '1';
        })
      );
  }

  // ---- pointer and keys ----

  patchAt(event) {
    const box = event.target.getBoundingClientRect(),
      {rows, columns} = this.shown;
    const column = Math.floor(((event.clientX - box.left) / box.width) * columns),
      row = Math.floor(((event.clientY - box.top) / box.height) * rows);
    return row >= 0 && row < rows && column >= 0 && column < columns ? row * columns + column : -1;
  }

  point(patch, event) {
    if (patch < 0) hideTip();
    if (patch === this.pointed) return;
    this.pointed = patch;
    for (const map of [this.one, this.rolled]) if (map.weights) this.paint(map);
    if (patch < 0) {
      this.readout.textContent = '';
      return;
    }
    const token = this.shown.first + patch,
      one = this.one.weights[token],
      rolled = this.rolled.weights ? `; rollout ${weightText(this.rolled.weights[token])}` : '';
    this.readout.textContent = `${this.shown.name(this.query)} → ${this.shown.name(token)}: ${weightText(one)}${rolled}`;
    this.readout.dataset.value = String(one);
    this.readout.dataset.rollout = this.rolled.weights ? String(this.rolled.weights[token]) : '';
    if (event) showTip(event, this.shown.name(token), weightText(one) + rolled);
  }

  // A patch as the query, or no longer.
  choose(patch) {
    if (patch < 0) return;
    const token = this.shown.first + patch;
    hideTip();
    go({token: token === this.pinned ? -1 : token});
  }

  key(event) {
    const {rows, columns} = this.shown,
      step = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[
        event.key
      ];
    if (step && this.pointed < 0) this.point(0);
    else if (step) {
      const row = Math.floor(this.pointed / columns) + step[0],
        column = (this.pointed % columns) + step[1];
      if (row >= 0 && row < rows && column >= 0 && column < columns)
        this.point(row * columns + column);
    } else if (event.key === 'Enter') this.choose(this.pointed);
    else return;
    event.preventDefault();
  }
}
