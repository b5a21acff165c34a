import type { Rng } from "../../base/rng.js";
import { softmax } from "../../base/softmax.js";
import type { EditedText } from "../edited-text.js";
import {
  type Problem,
  type ScoredText,
  type Search,
  type SearchGenerator,
  score,
  scoreCandidates,
} from "../protocol.js";
import { copyWords, drawIndex, selectBest } from "./population.js";
import { runTogether } from "./run-together.js";

interface Particle extends ScoredText {
  /** The best text of this particle. */
  readonly elite: ScoredText;
  readonly velocities: readonly number[];
}

const maxVelocity = 3;
const maxTries = 20;

/** Particle swarm optimization over words (Zang et al. 2020; LEAP: Xiao et al. 2023). */
export function particleSwarmSearch(options: {
  readonly population: number;
  readonly iterations: number;
  /** LEAP: Lévy flights, an inertia per particle, about one word per turn, greedy mutation. */
  readonly isLeap?: boolean;
}): Search {
  const { population, iterations, isLeap = false } = options;
  return {
    name: `${isLeap ? "LEAP" : "particle swarm"}, ${population} particles and ${iterations} moves`,
    cost: "the candidates of all words, then population x (1 + candidates of all words) per move",
    *run(problem, stream) {
      const rng = stream.fork("search");
      const { text: original } = problem.original;
      const positions = problem.findOpenPositions(original);
      const neighbors = yield* findBestNeighbors(problem.original, positions);
      if (neighbors.length === 0) return original;
      const reached = neighbors.find(({ isReached }) => isReached);
      if (reached) return selectBest(neighbors).text;
      let particles = Array.from({ length: population }, (_, i): Particle => {
        const own = rng.fork("start", i);
        const first = selectNeighbor(problem.original, neighbors, own, isLeap);
        const velocity = isLeap ? drawLevy(-maxVelocity, maxVelocity, own) : (2 * own.next() - 1) * maxVelocity;
        return { ...first, elite: first, velocities: original.words.map(() => velocity) };
      });
      const startMean = computeMean(particles);
      for (let iteration = 0; ; iteration++) {
        const globalElite = selectBest(particles.map(({ elite }) => elite));
        if (globalElite.isReached || iteration === iterations) return globalElite.text;
        const progress = iteration / iterations;
        const lowest = Math.min(...particles.map(({ value }) => value));
        const moves = particles.map((particle, i) => {
          const own = rng.fork("move", iteration, i);
          const inertia = isLeap
            ? computeLeapInertia(particle.value, lowest, startMean, own)
            : 0.6 * (1 - progress) + 0.2;
          return moveParticle(problem, particle, globalElite, { ...options, inertia, progress }, own);
        });
        particles = yield* runTogether(moves);
        const best = selectBest(particles);
        if (best.isReached) return best.text;
        particles = yield* runTogether(
          particles.map((particle, i) => mutate(problem, particle, rng.fork("mutate", iteration, i), isLeap)),
        );
      }
    },
  };
}

/** Turns a particle toward its own best text and toward the best text of all. */
function* moveParticle(
  problem: Problem,
  particle: Particle,
  globalElite: ScoredText,
  options: { readonly isLeap?: boolean; readonly inertia: number; readonly progress: number },
  rng: Rng,
): SearchGenerator<Particle> {
  const { inertia, progress, isLeap = false } = options;
  const words = particle.text.words;
  const [own, best] = [particle.elite.text.words, globalElite.text.words];
  const pull = (first: string, second: string): number => (first === second ? -maxVelocity : maxVelocity);
  const velocities = particle.velocities.map(
    (velocity, i) => inertia * velocity + (1 - inertia) * (pull(own[i]!, words[i]!) + pull(best[i]!, words[i]!)),
  );
  const probabilities = isLeap ? softmax(velocities) : velocities.map((velocity) => 1 / (1 + Math.exp(-velocity)));
  let { text } = particle;
  const turn = (elite: EditedText): void => {
    text = turnToward(problem, text, elite, probabilities, rng);
  };
  if (rng.next() < 0.8 - 0.6 * progress) turn(particle.elite.text);
  if (rng.next() < 0.2 + 0.6 * progress) turn(globalElite.text);
  if (text === particle.text) return { ...particle, velocities };
  const [scored] = yield* score([{ text }]);
  return { ...scored!, velocities, elite: scored!.value > particle.elite.value ? scored! : particle.elite };
}

/** Copies words of the elite with the given probabilities, if the constraints allow the result. */
function turnToward(
  problem: Problem,
  text: EditedText,
  elite: EditedText,
  probabilities: readonly number[],
  rng: Rng,
): EditedText {
  for (let attempt = 0; attempt < maxTries; attempt++) {
    const chosen = probabilities.flatMap((probability, i) => (rng.next() < probability ? [i] : []));
    const turned = copyWords(text, elite, chosen);
    if (problem.isAllowed(turned)) return turned;
  }
  return text;
}

/** Changes one word of a particle. The more it has changed already, the less likely. */
function* mutate(problem: Problem, particle: Particle, rng: Rng, isLeap: boolean): SearchGenerator<Particle> {
  const { text } = particle;
  const reference = isLeap ? particle.elite.text : text.original;
  const different = text.words.filter((word, i) => word !== reference.getWord(i)).length;
  if (rng.next() >= 1 - (2 * different) / Math.max(1, text.length)) return particle;
  const neighbors = yield* findBestNeighbors(particle, problem.findOpenPositions(text));
  if (neighbors.length === 0) return particle;
  const next = selectNeighbor(particle, neighbors, rng, isLeap);
  return { ...particle, ...next, elite: next.value > particle.elite.value ? next : particle.elite };
}

function* findBestNeighbors({ text }: ScoredText, positions: readonly number[]): SearchGenerator<ScoredText[]> {
  const lists = yield* runTogether(positions.map((position) => scoreCandidates(text, [position])));
  return lists.flatMap(([best]) => (best ? [best] : []));
}

/** Draws a neighbor in proportion to its gain, uniformly if none has one; LEAP takes the best. */
function selectNeighbor(current: ScoredText, neighbors: readonly ScoredText[], rng: Rng, isLeap: boolean): ScoredText {
  const gains = neighbors.map(({ value }) => Math.max(0, value - current.value));
  if (isLeap && current.text !== current.text.original) return selectBest(neighbors);
  const index = drawIndex(gains, rng);
  return neighbors[index < 0 ? rng.integer(neighbors.length) : index]!;
}

/** Particles that are better than the start explore less. */
function computeLeapInertia(value: number, lowest: number, startMean: number, rng: Rng): number {
  if (value >= startMean || startMean <= lowest) return drawLevy(0.5, 0.8, rng);
  return 0.2 + (0.6 * (value - lowest)) / (startMean - lowest);
}

/** The mean value, rounded to three digits as in LEAP. */
function computeMean(particles: readonly ScoredText[]): number {
  return Math.round((1000 * particles.reduce((sum, { value }) => sum + value, 0)) / particles.length) / 1000;
}

const alpha = 1.5;
/** Mantegna's constants for alpha = 1.5. */
const scale = 0.696_574_502_557_698;
const [k, c] = [1.599_217_518_399_024, 2.737];
const maxDraws = 1000;

/**
 * Draws from a Lévy-stable distribution with Mantegna's algorithm (1994): a ratio of normal
 * variables, and a transformation that makes the center of the distribution accurate.
 */
function drawStable(rng: Rng): number {
  let value: number;
  // The transformation grows without bound for large negative values, as in LEAP's code.
  do value = (scale * rng.normal()) / Math.abs(rng.normal()) ** (1 / alpha);
  while (value < -10);
  return value * ((k - 1) * Math.exp(-value / c) + 1);
}

/** Draws until the number is within the range. */
export function drawLevy(low: number, high: number, rng: Rng): number {
  for (let draw = 0; draw < maxDraws; draw++) {
    const value = drawStable(rng);
    if (value >= low && value <= high) return value;
  }
  return low + rng.next() * (high - low);
}
