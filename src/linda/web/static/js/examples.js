// Example pairs. The hard ones are of kinds that interpolate badly.

export const EXAMPLES = [
  { name: "Two hotel stays", a: "The hotel was clean and the staff were friendly.", b: "The room was small and the food was cold." },
  { name: "Two questions", a: "What is the capital of France?", b: "How many people live in Tokyo?" },
  { name: "Two films", a: "This film is a warm and funny story about two old friends.", b: "This film is a slow and empty story about nothing at all." },
  { name: "Two places", a: "The old bridge crosses the river near the market.", b: "The new library stands behind the city hall." },
  { name: "Hard: very different lengths", a: "Great!", b: "We waited for more than an hour before anyone brought us a menu, and nobody said sorry.", note: "A word and a long sentence: there are few texts between them." },
  { name: "Hard: nothing in common", a: "Add two eggs and stir until the dough is smooth.", b: "The court rejected the appeal on Thursday.", note: "No shared topic and no shared form: the middle is often odd." },
  { name: "Hard: a negation", a: "I would recommend this place to anyone.", b: "I would not recommend this place to anyone.", note: "One word decides the meaning: there is nothing in between." },
  { name: "Hard: names and numbers", a: "Flight 417 leaves gate B12 at 18:05.", b: "Invoice 20931 for Ms Okonkwo is due on 3 May.", note: "Names and numbers consist of rare tokens, which the model often gets wrong." },
];
