// A pcap file (the classic format, pcap-savefile(5)) to the frames in it. Bytes in, frames out. Pure.

const fileHeader = 24;
const recordHeader = 16;

export function framesOf(bytes: Buffer): Uint8Array[] {
  if (bytes.length < fileHeader) return [];
  const magic = bytes.readUInt32LE(0);
  // Microseconds or nanoseconds; written by this machine, so big-endian means another kind of machine.
  const isLittle = magic === 0xa1b2c3d4 || magic === 0xa1b23c4d;
  const length = (at: number) => (isLittle ? bytes.readUInt32LE(at) : bytes.readUInt32BE(at));
  const frames: Uint8Array[] = [];
  let at = fileHeader;
  while (at + recordHeader <= bytes.length) {
    const end = at + recordHeader + length(at + 8);
    if (end > bytes.length) throw new Error(`pcap: record at byte ${at} is cut off`);
    frames.push(new Uint8Array(bytes.subarray(at + recordHeader, end)));
    at = end;
  }
  return frames;
}
