// SPDX-License-Identifier: MIT
// Shared helpers: elements, number formatting, colours. Text is always inserted as text nodes, never
// as markup: tokens are untrusted.

const $ = id => document.getElementById(id);

// el('button', {class: 'chip', onclick: f, 'aria-label': 'x'}, 'text', child)
function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (key === 'class') element.className = value;
    else if (value === true) element.setAttribute(key, '');
    else if (value !== false && value != null) element.setAttribute(key, value);
  }
  element.append(...children.filter(child => child != null));
  return element;
}

// ---- numbers --------------------------------------------------------------------------

const weightText = w => (w === 0 ? '0' : w < 0.00005 ? w.toExponential(1) : w.toFixed(4));
const percentText = w => (100 * w).toFixed(w < 0.1 ? 1 : 0) + ' %';
const shareText = p => (p > 0 && p < 0.0005 ? 'under 0.1 %' : percentText(p));
const numberText = x =>
  x === 0
    ? '0'
    : Math.abs(x) >= 1000 || Math.abs(x) < 0.001
      ? x.toExponential(2)
      : x
          .toPrecision(4)
          .replace(/(\.\d*?)0+$/, '$1')
          .replace(/\.$/, '');

const counted = (n, noun) => `${n} ${noun}${n === 1 ? '' : 's'}`;
const capitalise = word => word[0].toUpperCase() + word.slice(1);

// ---- tokens ---------------------------------------------------------------------------

// A token as a label: invisible characters get a symbol.
const tokenText = token =>
  token === ''
    ? '∅'
    : token
        .replace(/\n/g, '↵')
        .replace(/\t/g, '→')
        .replace(/^ +$/, s => '␣'.repeat(s.length));
const shorten = (text, most) => {
  const letters = Array.from(text);
  return letters.length <= most ? text : letters.slice(0, most - 1).join('') + '…';
};

// ---- colours --------------------------------------------------------------------------
// Lightness is monotonic from the background colour to its opposite, through blue to yellow: readable
// with any colour vision and in print.

const SCALES = {
  light: [
    [255, 255, 255],
    [226, 240, 217],
    [160, 210, 190],
    [84, 164, 176],
    [38, 110, 158],
    [27, 66, 124],
    [14, 26, 66],
  ],
  dark: [
    [22, 26, 36],
    [28, 58, 94],
    [31, 111, 139],
    [53, 167, 156],
    [167, 219, 160],
    [251, 247, 197],
  ],
};
const SIGNED = {
  light: [
    [178, 88, 6],
    [240, 182, 106],
    [255, 255, 255],
    [120, 175, 214],
    [8, 81, 156],
  ],
  dark: [
    [255, 176, 90],
    [140, 88, 36],
    [30, 34, 46],
    [38, 98, 150],
    [130, 200, 255],
  ],
};
// Okabe and Ito's colours, then Tol's: distinct for any colour vision, as far as twelve can be.
const HEADS = {
  light: '#0072b2 #d55e00 #009e73 #cc79a7 #e69f00 #56b4e9 #882255 #999933 #332288 #44aa99 #aa4499 #ddcc77',
  dark: '#56a8e8 #ff8c3c #2fc79a #e79ac4 #ffc04d #9fdcff #e06a9b #cfcf5a #a596ff #66d6c4 #e08ae0 #efe08f',
};
const headColour = head => {
  const colours = HEADS[theme()].split(' ');
  return colours[head % colours.length];
};

const theme = () =>
  document.documentElement.dataset.theme ||
  (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');

function interpolate(anchors, at) {
  const position = Math.min(Math.max(at, 0), 1) * (anchors.length - 1);
  const below = Math.min(Math.floor(position), anchors.length - 2),
    part = position - below;
  return anchors[below].map((c, i) => Math.round(c * (1 - part) + anchors[below + 1][i] * part));
}

// 256 colours as bytes for an ImageData.
const tables = new Map();
function colourTable(anchors) {
  if (!tables.has(anchors)) {
    const bytes = new Uint8ClampedArray(1024);
    for (let i = 0; i < 256; i++) bytes.set([...interpolate(anchors, i / 255), 255], 4 * i);
    tables.set(anchors, new Uint32Array(bytes.buffer));
  }
  return tables.get(anchors);
}
const scaleTable = () => colourTable(SCALES[theme()]);
const scaleColour = at => `rgb(${interpolate(SCALES[theme()], at)})`;
// -1 to 1
const signedColour = at => `rgb(${interpolate(SIGNED[theme()], (at + 1) / 2)})`;
const inkOn = at => ((theme() === 'light') === at < 0.5 ? '#1d2230' : '#f4f6fa');

// The current value of a colour of the style sheet; read once per theme.
const cssColours = new Map();
function cssColour(name) {
  const key = theme() + name;
  if (!cssColours.has(key)) {
    const probe = document.body.appendChild(el('span'));
    probe.style.color = `var(${name})`;
    cssColours.set(key, getComputedStyle(probe).color);
    probe.remove();
  }
  return cssColours.get(key);
}

// ---- how a weight becomes a shade ---------------------------------------------------------

const SHADES = {
  root: {name: 'square root'},
  linear: {name: 'linear'},
  row: {name: 'relative to row maximum'},
};

// The weights at a legend's fifths.
const shadeTicks = name => (name === 'root' ? [0, 0.04, 0.16, 0.36, 0.64, 1] : [0, 0.2, 0.4, 0.6, 0.8, 1]);

// A matrix's shades, 0 to 255.
function shadeMatrix(matrix, name) {
  const {rows, cols, data} = matrix,
    shades = new Uint8Array(rows * cols);
  for (let i = 0, at = 0; i < rows; i++) {
    let most = 0;
    if (name === 'row') for (let j = 0; j < cols; j++) most = Math.max(most, data[at + j]);
    for (let j = 0; j < cols; j++, at++) {
      const w = data[at];
      const shade = name === 'root' ? Math.sqrt(w) : name === 'row' ? (most > 0 ? w / most : 0) : w;
      shades[at] = shade >= 1 ? 255 : shade * 255 + 0.5;
    }
  }
  return {rows, cols, shades};
}

// Half the size, each shade the darkest of four: a thin line stays one.
function halve({rows, cols, shades}) {
  const r = (rows + 1) >> 1,
    c = (cols + 1) >> 1,
    half = new Uint8Array(r * c);
  for (let i = 0; i < rows; i++)
    for (let j = 0, from = i * cols, to = (i >> 1) * c; j < cols; j++, from++)
      if (shades[from] > half[to + (j >> 1)]) half[to + (j >> 1)] = shades[from];
  return {rows: r, cols: c, shades: half};
}

// Part of the shades as a canvas, one pixel each.
function shadeCanvas({cols, shades}, x, y, width, height) {
  const canvas = el('canvas');
  paintShades(canvas, {cols, shades}, x, y, width, height);
  return canvas;
}
function paintShades(canvas, {cols, shades}, x, y, width, height) {
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext('2d');
  const image = context.createImageData(width, height),
    table = scaleTable();
  const pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < height; i++)
    for (let j = 0, from = (y + i) * cols + x; j < width; j++)
      pixels[i * width + j] = table[shades[from + j]];
  context.putImageData(image, 0, 0);
}

// ---- the tooltip ----------------------------------------------------------------------------

function showTip(event, ...lines) {
  const tip = $('tip');
  tip.replaceChildren(...lines.map(line => el('div', {}, line)));
  tip.hidden = false;
  const box = tip.getBoundingClientRect(),
    x = event.clientX,
    y = event.clientY;
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 8)) + 'px';
  tip.style.top = (y + 18 + box.height > innerHeight ? y - box.height - 10 : y + 18) + 'px';
}
const hideTip = () => {
  $('tip').hidden = true;
};

// Sizes a canvas for the device pixel ratio and returns a context in CSS pixels.
function sharpContext(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const w = Math.max(1, Math.round(width * ratio)),
    h = Math.max(1, Math.round(height * ratio));
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
  }
  canvas.style.width = width + 'px';
  canvas.style.height = height + 'px';
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}
