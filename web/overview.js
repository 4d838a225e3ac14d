// SPDX-License-Identifier: MIT
// Overview: every head of every layer as a small picture, and the mean of each layer.

const THUMBNAIL = 64; // pixels at most; larger heads show the darkest of several weights
const AT_ONCE = 32;

const overview = {
  id: 'overview',
  name: 'Overview',

  async render(host, trace, alive) {
    const jobs = [];
    const all = el('div', {class: 'groups'});
    host.append(all);
    for (const group of trace.groups.values()) {
      const grid = el('div', {class: 'grid'});
      grid.style.gridTemplateColumns = `${group.axis === 'layer' ? 2.6 : 4.4}rem repeat(${group.heads + 1}, minmax(46px, 1fr))`;
      grid.style.maxWidth = `${(group.heads + 1) * 104 + 50}px`;
      grid.append(el('span', {class: 'muted corner'}, group.axis));
      for (let h = 0; h < group.heads; h++)
        grid.append(el('span', {class: 'muted head'}, String(h)));
      grid.append(el('span', {class: 'muted head'}, 'mean'));
      for (let layer = 0; layer < group.layers; layer++) {
        grid.append(el('span', {class: 'muted layer'}, String(layer)));
        for (let h = 0; h <= group.heads; h++) {
          const head = h < group.heads ? h : -1;
          const canvas = el('canvas', {width: 1, height: 1});
          grid.append(
            el(
              'button',
              {
                class: 'thumb',
                onclick: () => go({view: 'heatmap', kind: group.kind, layer, head}),
                'aria-label': placeName(group, layer, head),
              },
              canvas
            )
          );
          jobs.push({group, layer, head, canvas});
        }
      }
      const section = el(
        'section',
        {class: 'card'},
        el(
          'h2',
          {},
          group.name,
          el(
            'span',
            {class: 'muted'},
            ` ${counted(group.layers, group.axis)} × ${counted(group.heads, 'head')}, ${group.rows} × ${group.cols}`
          )
        ),
        el('div', {class: 'scroll'}, grid)
      );
      section.style.flexBasis = `min(100%, ${(group.heads + 1) * 70 + 110}px)`;
      all.append(section);
    }
    const seen = jobs.filter(job => job.canvas.getBoundingClientRect().top < innerHeight);
    for (let at = 0; at < seen.length; at += AT_ONCE) {
      // inflating runs concurrently with drawing
      await Promise.all(seen.slice(at, at + AT_ONCE).map(job => overview.draw(job)));
      if (!alive()) return;
    }
    overview.drawLater(jobs.filter(job => !seen.includes(job)));
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
    canvas.style.aspectRatio = `${shades.cols} / ${shades.rows}`;
    canvas.dataset.done = '1';
  },

  async svg() {
    const group = current.group,
      size = 72,
      parts = [svgText(40, 18, group.name, 'font-size="13"')];
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
    return svgPage(46 + group.heads * size, 40 + group.layers * size, parts.join(''));
  },

  // every weight would be a very long list: the statistics of the heads instead
  csv: () => headsView.csv(),
};
