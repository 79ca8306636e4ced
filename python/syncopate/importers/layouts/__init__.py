"""Plans of layouts: what ranks have of a tensor and what they are to have, and the plan that moves the difference."""
