import { readFileSync, readlinkSync } from "node:fs";

/** The exit code that shells expect of a program stopped by Ctrl-C. */
export const interruptedExitCode = 130;

/**
 * Signals that ask a program to stop: Ctrl-C, a scheduler or service manager, and a closed
 * terminal.
 */
const stopSignals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

export function onStopSignals(listener: (signal: NodeJS.Signals) => void): () => void {
  for (const signal of stopSignals) process.on(signal, listener);
  return () => {
    for (const signal of stopSignals) process.off(signal, listener);
  };
}

/**
 * Returns true if a process with this ID runs on this host. A zombie has ended; without an init process,
 * nobody may ever reap it.
 */
export function isAlive(pid: number): boolean {
  const state = readProcessFields(pid)?.[0];
  if (state !== undefined) return state !== "Z" && state !== "X";
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EPERM";
  }
}

/** Reads the start time of a process in system ticks, or null if it is not available. */
export function readStartTime(pid: number): string | null {
  return readProcessFields(pid)?.[19] ?? null;
}

/** The state of a process and what follows it in /proc, or null if that is not available. */
function readProcessFields(pid: number): string[] | null {
  try {
    // Skip the program name, which is in parentheses and may contain spaces.
    return readFileSync(`/proc/${pid}/stat`, "utf8")
      .replace(/^.*\)\s/s, "")
      .split(" ");
  } catch {
    return null;
  }
}

/** Identifies the boot of the host and the process namespace; null outside Linux. */
export function readSystem(): string | null {
  try {
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    return `${boot} ${readlinkSync("/proc/self/ns/pid")}`;
  } catch {
    return null;
  }
}

/** Blocks the thread, where a synchronous function has to wait. */
export function sleepSync(milliseconds: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
}

const crashSignals = ["SIGILL", "SIGSEGV", "SIGBUS", "SIGFPE"];

export function describeSignal(signal: string): string {
  return crashSignals.includes(signal) ? `libtorch crashed with ${signal}` : `the process was killed by ${signal}`;
}

/** Says what to do about a crash, too. native/binding/crash.cc writes the same words. */
export function describeCrash(signal: string, precision: string | null = null): string {
  if (!crashSignals.includes(signal)) return describeSignal(signal);
  const remedy = precision === "fp32" ? "`temper doctor` checks the installation" : "run with --precision fp32";
  return `${describeSignal(signal)}${precision === null ? "" : ` in ${precision}`}; ${remedy}`;
}
