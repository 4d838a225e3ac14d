// SPDX-License-Identifier: MIT
// Overview: one head with the words, and next to it every head of every layer as a small picture.
// Pointing at a picture shows it with the words; a click opens it.

const THUMBNAIL = 64; // pixels at most; larger heads show the darkest of several weights
const AT_ONCE = 32;

const overview = {
  id: 'overview',
  name: 'Overview',

  async render(host, trace, alive) {
    const kinds = [state.kind, ...trace.groups.keys()].filter((k, i, all) => all.indexOf(k) === i);
    this.featured = el('section', {class: 'card featured'});
    const all = el('div', {class: 'groups'});
    host.append(el('div', {class: 'welcome'}, this.featured, all));
    const jobs = [];
    for (const kind of kinds) all.append(this.section(trace.groups.get(kind), jobs));
    this.shown = '';
    await this.feature(current.group, state.layer, state.head, alive);
    if (!alive()) return;
    const seen = jobs.filter(job => job.canvas.getBoundingClientRect().top < innerHeight);
    for (let at = 0; at < seen.length; at += AT_ONCE) {
      // inflating runs concurrently with drawing
      await Promise.all(seen.slice(at, at + AT_ONCE).map(job => overview.draw(job)));
      if (!alive()) return;
    }
    overview.drawLater(jobs.filter(job => !seen.includes(job)));
  },

  // The heads of one kind.
  section(group, jobs) {
    const {trace} = group;
    const grid = el('div', {class: 'grid'});
    grid.style.gridTemplateColumns = `${group.axis === 'layer' ? 2.6 : 4.4}rem repeat(${group.heads + 1}, minmax(38px, 1fr))`;
    grid.style.maxWidth = `${(group.heads + 1) * (trace.groups.size > 1 ? 70 : 110) + 50}px`;
    grid.append(el('span', {class: 'muted corner'}, group.axis));
    for (let h = 0; h < group.heads; h++)
      grid.append(el('span', {class: 'muted head'}, h === 0 ? 'head 0' : String(h)));
    grid.append(el('span', {class: 'muted head'}, 'mean'));
    for (let layer = 0; layer < group.layers; layer++) {
      grid.append(el('span', {class: 'muted layer'}, String(layer)));
      for (let h = 0; h <= group.heads; h++) grid.append(this.thumb(group, layer, h < group.heads ? h : -1, jobs));
    }
    const section = el('section', {class: 'card'},
      el('h2', {}, group.name, el('span', {class: 'muted'},
        ` ${counted(group.layers, group.axis)} × ${counted(group.heads, 'head')}, ${sizeText(group)}`)),
      el('p', {class: 'muted meaning'}, group.meaning + (canDisable(group) ? ' ● disables a head.' : '')),
      el('div', {class: 'scroll'}, grid));
    section.style.flexBasis = `min(100%, ${(group.heads + 1) * 40 + 96}px)`;
    return section;
  },
  thumb(group, layer, head, jobs) {
    const canvas = el('canvas', {width: 1, height: 1}), off = isOff(group, layer, head);
    const preview = () => this.feature(group, layer, head).catch(error => console.error(error));
    const button = el('button', {
      class: off ? 'thumb off' : 'thumb',
      'data-head': `${group.kind} ${layer} ${head}`,
      onclick: () => go({view: 'heatmap', kind: group.kind, layer, head}),
      onpointerenter: e => e.pointerType === 'mouse' && preview(),
      onfocus: preview,
      'aria-label': headTitle(group, layer, head) + (off ? ', disabled' : ''),
    }, canvas);
    jobs.push({group, layer, head, canvas});
    return head >= 0 && canDisable(group) ? el('span', {class: 'switchable'}, button, offSwitch(group, layer, head)) : button;
  },

  // One head with its words, and what it says in a sentence.
  async feature(group, layer, head, alive = () => true) {
    const shown = `${group.kind} ${layer} ${head}`;
    if (this.shown === shown) return;
    this.shown = shown;
    const m = await group.matrix(layer, head, state.words);
    if (!alive() || this.shown !== shown) return;
    const pattern = head >= 0 && group.trace.groups.size ? (await statisticsOf(group, layer, head)).pattern : '';
    if (!alive() || this.shown !== shown || !this.featured.isConnected) return;
    for (const old of document.querySelectorAll('.thumb.chosen')) old.classList.remove('chosen');
    const chosen = document.querySelector(`.thumb[data-head="${shown}"]`);
    if (chosen) chosen.classList.add('chosen');
    const canvas = el('canvas', {role: 'img', 'aria-label': headTitle(group, layer, head)});
    const stage = el('div', {class: 'stage'}, canvas), readout = el('p', {class: 'readout'}, bestSentence(group, m));
    this.featured.replaceChildren(
      el('h2', {}, headTitle(group, layer, head), pattern
        ? el('span', {class: 'muted'}, ' ', el('span', {class: 'pattern'}, pattern), ` ${patternMeaning(group, pattern)}`)
        : null),
      ...[offNote(group, layer, head)].filter(note => note), stage, readout, heatmap.legend());
    new HeatmapStage(stage, canvas, readout, null, m, {still: true});
  },

  // Draws the others when they are about to be scrolled into view.
  drawLater(jobs) {
    const waiting = new Map(jobs.map(job => [job.canvas, job]));
    const observer = new IntersectionObserver(
      entries => {
        for (const {isIntersecting, target} of entries) {
          if (!isIntersecting) continue;
          observer.unobserve(target);
          overview.draw(waiting.get(target)).catch(error => console.error(error));
        }
      },
      {rootMargin: '600px'}
    );
    for (const canvas of waiting.keys()) observer.observe(canvas);
  },

  async draw({group, layer, head, canvas}) {
    let shades = shadeMatrix(await group.head(layer, head), state.shade);
    while (Math.max(shades.rows, shades.cols) > THUMBNAIL) shades = halve(shades);
    paintShades(canvas, shades, 0, 0, shades.cols, shades.rows);
    canvas.style.aspectRatio = `${shades.cols} / ${Math.max(shades.rows, shades.cols / 3)}`;
    canvas.dataset.done = '1';
  },

  async svg() {
    const group = current.group, size = 72, parts = [svgText(40, 18, group.name, 'font-size="13"')];
    for (let layer = 0; layer < group.layers; layer++) {
      parts.push(svgText(8, 40 + layer * size + size / 2, String(layer)));
      for (let head = 0; head < group.heads; head++) {
        const canvas = el('canvas');
        await overview.draw({group, layer, head, canvas});
        parts.push(
          `<image x="${40 + head * size}" y="${34 + layer * size}" width="${size - 6}" ` +
            `height="${size - 6}" preserveAspectRatio="none" image-rendering="pixelated" ` +
            `href="${canvas.toDataURL()}"/>`
        );
        if (layer === 0) parts.push(svgText(40 + head * size, 31, String(head)));
      }
    }
    parts.push(legendSvg(state.shade, 40, 44 + group.layers * size));
    return svgPage(Math.max(310, 46 + group.heads * size), 80 + group.layers * size, parts.join(''));
  },

  // every weight would be a very long list: the statistics of the heads instead
  csv: () => headsView.csv(),
};

// "11 target × 10 source tokens".
function sizeText({kind, patches, keys, rows, cols, square}) {
  if (kind === 'cross') return keys.timed ? `${rows} tokens × ${cols} moments of sound` : `${rows} target × ${cols} source tokens`;
  if (patches) return `${rows} × ${cols} patches${patches.first ? ' and other tokens' : ''}`;
  return square && keys.named ? `${rows} × ${cols} tokens` : `${rows} queries × ${cols} keys`;
}

// The clearest thing that a matrix says: its largest weight between words, as {i, j}; null if there is
// none. A query that sees one or two keys has no choice and is left out.
function clearestCell(group, m, words = state.words) {
  if (!group.keys.named || !group.queries.named) return null;
  const speaks = (tokens, position) => {
    const token = tokenAt(tokens, position, words);
    return !tokens.special[token] && !isPunctuation(tokens.bare[token]);
  };
  const masked = group.kind === 'decoder.self';
  let best = -1;
  for (let i = 0; i < m.rows; i++)
    for (let j = 0; j < m.cols; j++)
      if ((best < 0 || m.data[i * m.cols + j] > m.data[best]) && (i !== j || !group.square) &&
          (!masked || i > 1) && speaks(group.queries, i) && speaks(group.keys, j)) best = i * m.cols + j;
  return best < 0 ? null : {i: Math.floor(best / m.cols), j: best % m.cols};
}

function bestSentence(group, m) {
  const best = clearestCell(group, m);
  if (!best) return '';
  const {i, j} = best, weight = percentText(m.data[i * m.cols + j]);
  return group.kind === 'cross'
    ? `When “${m.rowLabels[i]}” is written, ${weight} of the attention is on ${keyPhrase(group, m, j)}.`
    : `${group.patches ? capitalise(patchName(m.rowLabels[i])) : `“${m.rowLabels[i]}”`} gives ${weight} of its attention to ${keyPhrase(group, m, j)}.`;
}

// A word, a moment of sound, or a patch.
function keyPhrase({keys, patches}, m, j) {
  const label = m.colLabels[j];
  if (patches) return patchName(label);
  return keys.timed && isMoment(label) ? `the sound at ${label.replace(/s$/, ' s')}` : `“${label}”`;
}
