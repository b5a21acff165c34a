/** How many cases a test runs: few in `make test`, which must be fast, and many in `make test-long`. */
export function chooseExtent(short: number, long: number): number {
  return process.env.TEMPER_LONG === "1" ? long : short;
}
