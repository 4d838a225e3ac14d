// SPDX-License-Identifier: MIT
// A picture file as a served page sends it: as it is, or, if the server would find it too large, drawn
// smaller by the browser.

const SENT_BYTES = 700e3, // base64 and JSON make a third more of it; the server takes 1 MiB
  SENT_PIXELS = 4e6,
  SHRUNK_SIDE = 1024; // pixels

const base64OfBlob = blob => new Promise((resolve, reject) => {
  const reader = new FileReader();
  reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(',') + 1));
  reader.onerror = () => reject(new Error('The file cannot be read.'));
  reader.readAsDataURL(blob);
});

async function pictureForServer(file) {
  let bitmap = null;
  try {
    bitmap = await createImageBitmap(file);
  } catch {
    /* PPM and PGM, for instance, which the server reads */
  }
  if (file.size <= SENT_BYTES && (!bitmap || bitmap.width * bitmap.height <= SENT_PIXELS)) return base64OfBlob(file);
  if (!bitmap) throw new Error(`The file has ${counted(file.size, 'byte')}; a picture that the browser cannot draw smaller may have ${SENT_BYTES}.`);
  const scale = Math.min(1, SHRUNK_SIDE / Math.max(bitmap.width, bitmap.height));
  const canvas = el('canvas', {
    width: Math.max(1, Math.round(bitmap.width * scale)),
    height: Math.max(1, Math.round(bitmap.height * scale)),
  });
  canvas.getContext('2d').drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  return base64OfBlob(await new Promise(resolve => canvas.toBlob(resolve, 'image/jpeg', 0.92)));
}
