import { formatCount, formatNumber } from "../format.js";
import type { AttackCallbacks } from "../runs/attack-suite.js";
import type { Io } from "./io.js";
import { createProgress, type Progress } from "./progress.js";
import { onStopSignals } from "./signals.js";

/** Between two results of a hard search minutes may pass: the texts that are scored meanwhile show that it lives. */
const tickMilliseconds = 1000;

/** Shows attacks on stderr, one bar each, and says on Ctrl-C how to go on. */
export function createAttackProgress(
  io: Io,
  options: { quiet?: true | undefined; resume: string },
): AttackCallbacks & { end(): void } {
  let progress: Progress | undefined;
  let timer: NodeJS.Timeout | undefined;
  let refresh = (): void => undefined;
  // Every finished example is on the disk, so there is nothing to save.
  const onSignal = (): void => {
    progress?.end();
    io.stderr.write(`\nstopped; every finished example is in its journal. Go on with: ${options.resume}\n`);
    process.exit(130);
  };
  let unlisten = (): void => undefined;
  const close = (): void => {
    clearInterval(timer);
    progress?.end();
    unlisten();
  };
  return {
    onStart(name, start, total, { counters }) {
      close();
      unlisten = onStopSignals(onSignal);
      if (start > 0 && !options.quiet)
        io.stderr.write(`${name}: ${formatCount(start)} of ${formatCount(total)} examples are done already\n`);
      const before = { at: performance.now(), forwarded: counters.forwarded };
      let done = start;
      progress = createProgress({
        label: name,
        total,
        unit: "examples",
        start,
        quiet: options.quiet,
        stream: io.stderr,
      });
      refresh = () => {
        const seconds = (performance.now() - before.at) / 1000;
        progress?.update(done, { "texts/s": formatNumber((counters.forwarded - before.forwarded) / seconds, 3) });
      };
      this.onResult = (count) => {
        done = count;
        refresh();
      };
      timer = setInterval(refresh, tickMilliseconds).unref();
    },
    onWarning(message) {
      if (!options.quiet) io.stderr.write(`note: ${message}\n`);
    },
    end: close,
  };
}
