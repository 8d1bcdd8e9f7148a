// Formats of numbers.

export const percent = (share) => `${Math.round(100 * share)} %`;

// A text that is longer than the window of the model has no score (null).
export const signedScore = (score) => (score === null ? "none" : Math.abs(score) < 0.005 ? "0.00" : score.toFixed(2).replace("-", "−"));

// A gain in points, always with its sign.
export const signedGain = (gain) => (Math.abs(gain) < 0.05 ? "0.0" : `${gain < 0 ? "−" : "+"}${Math.abs(gain).toFixed(1)}`);
