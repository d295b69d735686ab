; a round of the opponent: what the policy pays against claimed times what OPT pays at most
(set-logic QF_NRA)
(declare-const lambda Real)
(declare-const lo Real)
(declare-const hi Real)
(assert (and (> lambda 0.0) (> lo 0.0) (<= lo 1.0) (<= lo hi)))
(define-fun largest ((x Real) (y Real)) Real (ite (>= x y) x y))
(define-fun one () Real (* 2.0 lambda (+ (* 2.0 hi) 1.0)))
(define-fun two () Real (* 2.0 lambda (+ lo hi 1.0)))
(define-fun claimed () Real (largest (+ 1.0 (* 2.0 hi)) (+ 1.0 (/ (+ 1.0 hi) lo))))
; neither round forces it: 'one' against OPT <= 2 lambda, if hi >= 1; 'two' against OPT <= 2 lambda lo
(assert (=> (>= hi 1.0) (< one (* claimed 2.0 lambda))))
(assert (< two (* claimed (* 2.0 lambda lo))))
(check-sat)
