// SPDX-License-Identifier: MIT
// Exports: SVG drawn separately (not copied from the screen), PNG rendered from that SVG, CSV with
// the values.

const escapeXml = text =>
  String(text)
    .replace(/[&<>"]/g, c => ({'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;'})[c])
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, '\ufffd');

const svgText = (x, y, text, more = '') =>
  `<text x="${x}" y="${y}" ${more}>${escapeXml(text)}</text>`;
function svgPage(width, height, body) {
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" ` +
    `viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="11" ` +
    `fill="${cssColour('--ink')}"><rect width="100%" height="100%" fill="${cssColour('--paper')}"/>` +
    `${body}</svg>\n`
  );
}

const csvField = value =>
  /[",\n\r]/.test(value) ? `"${String(value).replace(/"/g, '""')}"` : value;
const csvOf = rows => rows.map(row => row.map(csvField).join(',')).join('\r\n') + '\r\n';
const matrixCsv = m =>
  csvOf([
    ['query \\ key', ...m.colLabels],
    ...m.rowLabels.map((label, i) => [label, ...m.data.slice(i * m.cols, (i + 1) * m.cols)]),
  ]);

const MOST_RECTS = 40000; // a larger heatmap is an image inside the drawing

// A ramp of the colours with the weights that they mean, 200 wide and 28 high.
function legendSvg(shade, x, y) {
  const steps = 40, parts = [];
  for (let i = 0; i < steps; i++)
    parts.push(`<rect x="${x + (i * 200) / steps}" y="${y}" width="5.2" height="10" fill="${scaleColour(i / (steps - 1))}"/>`);
  shadeTicks(shade).forEach((t, i, all) =>
    parts.push(svgText(x + (i * 200) / (all.length - 1), y + 22, t, 'font-size="9" text-anchor="middle"')));
  return `<g class="legend">${parts.join('')}</g>` +
    svgText(x + 212, y + 9, shade === 'row' ? 'of the row’s largest' : 'weight', 'font-size="9"');
}

function heatmapSvg(matrix, shade, title) {
  const {rows, cols} = matrix,
    cell = rows * cols > MOST_RECTS ? 2 : rows * cols > 400 ? 14 : 22;
  const named = cell >= 10,
    room = (labels, most) => 7 * Math.min(most, Math.max(3, ...labels.map(label => label.length))),
    left = named ? 16 + room(matrix.rowLabels, 16) : 10,
    top = named ? 38 + room(matrix.colLabels, 14) : 30;
  const levels = shadeMatrix(matrix, shade),
    parts = [svgText(10, 18, title, 'font-size="13"')];
  if (!named) {
    const image = shadeCanvas(levels, 0, 0, cols, rows).toDataURL('image/png');
    parts.push(
      `<image x="${left}" y="${top}" width="${cols * cell}" height="${rows * cell}" ` +
        `image-rendering="pixelated" href="${image}"/>`
    );
  } else {
    matrix.rowLabels.forEach((label, i) =>
      parts.push(svgText(left - 5, top + (i + 0.5) * cell + 4, shorten(label, 16), 'text-anchor="end"'))
    );
    matrix.colLabels.forEach((label, j) =>
      parts.push(
        svgText(
          0,
          0,
          shorten(label, 14),
          `transform="translate(${left + (j + 0.5) * cell + 4} ${top - 5}) rotate(-90)"`
        )
      )
    );
    for (let i = 0, at = 0; i < rows; i++)
      for (let j = 0; j < cols; j++, at++)
        parts.push(
          `<rect x="${left + j * cell}" y="${top + i * cell}" width="${cell}" ` +
            `height="${cell}" fill="${scaleColour(levels.shades[at] / 255)}"/>`
        );
  }
  parts.push(legendSvg(shade, 16, top + rows * cell + 12));
  const width = Math.max(left + cols * cell, 7 * title.length, 300) + 20; // of the title, roughly
  return svgPage(width, top + rows * cell + 46, parts.join(''));
}

// Rows of texts as a drawing.
function tableSvg(title, rows) {
  const widths = rows[0].map((_, c) => 14 + 6.4 * Math.max(...rows.map(r => String(r[c]).length)));
  const starts = widths.map((_, c) => 12 + widths.slice(0, c).reduce((a, b) => a + b, 0));
  const parts = [svgText(12, 20, title, 'font-size="13"')];
  rows.forEach((row, r) =>
    row.forEach((text, c) =>
      parts.push(svgText(starts[c], 44 + 16 * r, text, r === 0 ? 'font-weight="600"' : ''))
    )
  );
  return svgPage(24 + widths.reduce((a, b) => a + b, 0), 56 + 16 * rows.length, parts.join(''));
}

async function pngOfSvg(svg) {
  const image = new Image(),
    url = URL.createObjectURL(new Blob([svg], {type: 'image/svg+xml'}));
  try {
    await new Promise((done, failed) => {
      image.onload = done;
      image.onerror = () => failed(new Error('the drawing could not be rendered'));
      image.src = url;
    });
    const scale = Math.min(2, 8192 / Math.max(image.width, image.height));
    const canvas = el('canvas', {
      width: Math.ceil(image.width * scale),
      height: Math.ceil(image.height * scale),
    });
    canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise(done => canvas.toBlob(done, 'image/png'));
  } finally {
    URL.revokeObjectURL(url);
  }
}

function saveFile(name, blob) {
  const url = URL.createObjectURL(blob),
    link = el('a', {href: url, download: name});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

// Saves the view: {svg(): text, csv(): text}.
async function exportView(view, format) {
  const head = shownHead(),
    name = `attention-${state.view}-${state.kind}-${state.layer}-${head < 0 ? 'mean' : head}`;
  if (format === 'csv') saveFile(`${name}.csv`, new Blob([await view.csv()], {type: 'text/csv'}));
  else {
    const svg = await view.svg();
    saveFile(
      `${name}.${format}`,
      format === 'svg' ? new Blob([svg], {type: 'image/svg+xml'}) : await pngOfSvg(svg)
    );
  }
}
