import { sha256 } from "./sha256.js";

/**
 * A source of random numbers. The seed and the fork names determine a stream; other draws never
 * affect it.
 *
 * @example
 * new Rng(7).fork("step", 12, "clean").next(); // the same number in every program
 */
export class Rng {
  readonly #key: string;
  readonly #state = new Uint32Array(4);

  constructor(seed: number | string) {
    this.#key = String(seed);
    const { buffer, byteOffset } = sha256(this.#key);
    const digest = new DataView(buffer, byteOffset);
    for (let i = 0; i < 4; i++) this.#state[i] = digest.getUint32(4 * i, true);
  }

  /**
   * Creates a stream that does not depend on the position of this one. Names are length-prefixed,
   * so that ("ab", "c") differs from ("a", "bc").
   */
  fork(...names: (string | number)[]): Rng {
    return new Rng(names.reduce<string>((key, name) => `${key}/${String(name).length}:${name}`, this.#key));
  }

  /** 32 random bits (sfc32). */
  bits(): number {
    const s = this.#state as unknown as [number, number, number, number];
    const sum = (s[0] + s[1] + s[3]) >>> 0;
    s[3] = s[3] + 1;
    s[0] = s[1] ^ (s[1] >>> 9);
    s[1] = s[2] + (s[2] << 3);
    s[2] = ((s[2] << 21) | (s[2] >>> 11)) + sum;
    return sum;
  }

  /** A uniform number in [0, 1) with 53 bits. */
  next(): number {
    return ((this.bits() >>> 5) * 67108864 + (this.bits() >>> 6)) / 9007199254740992;
  }

  /** A uniform integer in [0, n). */
  integer(n: number): number {
    return Math.floor(this.next() * n);
  }

  /** Fills a list with indices of its entries, drawn with replacement: those that `integer` draws. */
  fillIndices(indices: Uint32Array): void {
    const { length } = indices;
    let [a, b, c, d] = this.#state as unknown as [number, number, number, number];
    // The state in local variables: a method call per draw takes three times as long.
    for (let i = 0; i < length; i++) {
      const high = (a + b + d) >>> 0;
      d = (d + 1) | 0;
      a = b ^ (b >>> 9);
      b = (c + (c << 3)) | 0;
      c = (((c << 21) | (c >>> 11)) + high) | 0;
      const low = (a + b + d) >>> 0;
      d = (d + 1) | 0;
      a = b ^ (b >>> 9);
      b = (c + (c << 3)) | 0;
      c = (((c << 21) | (c >>> 11)) + low) | 0;
      // Products with powers of two are exact, so this is the index that `integer` draws.
      indices[i] = ((high >>> 5) * 67108864 + (low >>> 6)) * 2 ** -53 * length;
    }
    this.#state.set([a, b, c, d]);
  }

  normal(): number {
    // 1 - next() is never 0, so the logarithm is finite.
    return Math.sqrt(-2 * Math.log(1 - this.next())) * Math.cos(2 * Math.PI * this.next());
  }

  /** Shuffles in place and returns the same array. */
  shuffle<T extends unknown[] | Int32Array | Float64Array>(items: T): T {
    for (let i = items.length - 1; i > 0; i--) {
      const j = this.integer(i + 1);
      const item = items[i];
      items[i] = items[j] as never;
      items[j] = item as never;
    }
    return items;
  }

  /** A 53-bit seed for another generator, such as libtorch's. */
  seed(): number {
    return Math.floor(this.next() * Number.MAX_SAFE_INTEGER);
  }

  /** The state as four words, to save a stream at its current position. */
  get state(): number[] {
    return [...this.#state];
  }

  set state(words: readonly number[]) {
    this.#state.set(words);
  }
}
