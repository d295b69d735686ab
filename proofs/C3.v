(* C3: two configurations, K = 1 and N = 2: the bank policy is 3-competitive.

   Two states, A (true) and B (false), at distance L. A step is a pair (a, b) of costs, at A and at B. Whole numbers:
   costs are in units of which a switch is L, so all rational costs and prices are covered. *)

Require Import List ZArith Bool Lia.
Import ListNotations.
Open Scope Z_scope.

Definition step := (Z * Z)%type.
Definition at_ (s : bool) (r : step) : Z := if s then fst r else snd r.
Definition nonneg (l : list step) : Prop := forall r, In r l -> 0 <= fst r /\ 0 <= snd r.
Definition switch (L : Z) (s s' : bool) : Z := if Bool.eqb s s' then 0 else L.

(* ---- Schedules: the states chosen at each step ---- *)

(* update_then_serve: move, then pay in the new state. *)
Fixpoint cost_uts (L : Z) (s : bool) (l : list step) (states : list bool) : Z :=
  match l, states with
  | r :: l', s' :: rest => switch L s s' + at_ s' r + cost_uts L s' l' rest
  | _, _ => 0
  end.

(* serve_then_update: pay in the present state, then move. *)
Fixpoint cost_stu (L : Z) (s : bool) (l : list step) (states : list bool) : Z :=
  match l, states with
  | r :: l', s' :: rest => at_ s r + switch L s s' + cost_stu L s' l' rest
  | _, _ => 0
  end.

(* ---- The optimum: least cost of ending in A and in B, step by step ---- *)

Definition work (L : Z) (w : Z * Z) (r : step) : Z * Z :=
  (Z.min (fst w + fst r) (snd w + snd r + L), Z.min (snd w + snd r) (fst w + fst r + L)).

Definition optimum (L : Z) (l : list step) : Z :=
  let w := fold_left (work L) l (0, L) in Z.min (fst w) (snd w).

Lemma work_below_stu : forall L l states s w,
  0 <= L -> length states = length l ->
  let v := fold_left (work L) l w in
  Z.min (fst v) (snd v) <= at_ s w + cost_stu L s l states.
Proof.
  intros L l; induction l as [| [a b] r IH]; intros states s [x y] HL Len.
  - simpl. destruct s; simpl; lia.
  - destruct states as [| s' rest]; [ discriminate |]. simpl in Len.
    specialize (IH rest s' (work L (x, y) (a, b)) HL ltac:(lia)).
    cbn [fold_left cost_stu]. eapply Z.le_trans; [ exact IH |].
    unfold work, switch, at_. destruct s, s'; cbn [fst snd Bool.eqb]; lia.
Qed.

(* The same recursion serves update_then_serve: a schedule that moves first can be read as one that pays first, the
   move before a step being the move after the step before it. *)
Lemma work_below_uts : forall L l states s w,
  0 <= L -> length states = length l ->
  Z.abs (fst w - snd w) <= L ->
  let v := fold_left (work L) l w in
  Z.min (fst v) (snd v) <= at_ s w + cost_uts L s l states.
Proof.
  intros L l; induction l as [| [a b] r IH]; intros states s [x y] HL Len Lip.
  - simpl. destruct s; simpl; lia.
  - destruct states as [| s' rest]; [ discriminate |]. simpl in Len, Lip.
    assert (Z.abs (fst (work L (x, y) (a, b)) - snd (work L (x, y) (a, b))) <= L) as Lip2
      by (unfold work; cbn [fst snd]; lia).
    specialize (IH rest s' (work L (x, y) (a, b)) HL ltac:(lia) Lip2).
    cbn [fold_left cost_uts]. eapply Z.le_trans; [ exact IH |].
    unfold work, switch, at_. destruct s, s'; cbn [fst snd Bool.eqb]; lia.
Qed.

Theorem optimum_is_below : forall L l states, 0 <= L -> length states = length l ->
  optimum L l <= cost_uts L true l states /\ optimum L l <= cost_stu L true l states.
Proof.
  intros L l states HL Len. unfold optimum. split.
  - pose proof (work_below_uts L l states true (0, L) HL Len ltac:(simpl; lia)) as H. exact H.
  - pose proof (work_below_stu L l states true (0, L) HL Len) as H. exact H.
Qed.

(* In update_then_serve, from A, the optimum is reached. In serve_then_update it is a lower bound: it lets a schedule
   move, for L, before the first step. *)
Lemma triangle : forall L s s' l states, 0 <= L -> cost_uts L s l states <= switch L s s' + cost_uts L s' l states.
Proof.
  intros L s s' l states HL. destruct l as [| r l]; [ simpl; unfold switch; destruct s, s'; simpl; lia |].
  destruct states as [| t rest]; [ simpl; unfold switch; destruct s, s'; simpl; lia |].
  cbn [cost_uts]. unfold switch. destruct s, s', t; simpl; lia.
Qed.

Lemma work_reached : forall L l w, 0 <= L ->
  exists s states, length states = length l /\
    let v := fold_left (work L) l w in at_ s w + cost_uts L s l states <= Z.min (fst v) (snd v).
Proof.
  intros L l; induction l as [| [a b] r IH]; intros [x y] HL.
  - destruct (Z.le_gt_cases x y); [ exists true, [] | exists false, [] ]; split; try reflexivity; simpl; lia.
  - destruct (IH (work L (x, y) (a, b)) HL) as [s' [states [Len E]]]. cbn [fold_left] in *.
    pose proof (triangle L (negb s') s' r states HL) as T.
    destruct (Z.le_gt_cases (at_ s' (x, y) + at_ s' (a, b)) (at_ (negb s') (x, y) + at_ (negb s') (a, b) + L)) as [H | H].
    + exists s', (s' :: states). split; [ simpl; now rewrite Len |].
      eapply Z.le_trans; [| exact E ]. cbn [cost_uts].
      destruct s'; unfold switch, at_, work in *; cbn [fst snd Bool.eqb negb] in *; lia.
    + exists (negb s'), (negb s' :: states). split; [ simpl; now rewrite Len |].
      eapply Z.le_trans; [| exact E ]. cbn [cost_uts].
      destruct s'; unfold switch, at_, work in *; cbn [fst snd Bool.eqb negb] in *; lia.
Qed.

Theorem optimum_is_reached : forall L l, 0 <= L ->
  exists states, length states = length l /\ cost_uts L true l states = optimum L l.
Proof.
  intros L l HL. destruct (work_reached L l (0, L) HL) as [s [states [Len E]]].
  exists states. split; [ assumption |].
  pose proof (triangle L true s l states HL) as T.
  destruct (optimum_is_below L l states HL Len) as [B _]. unfold optimum in *. cbn [fst snd] in *.
  destruct s; unfold switch, at_ in *; cbn [fst snd Bool.eqb] in *; lia.
Qed.

(* ---- The bank policy ---- *)

(* The state, the bank, and what has been paid. Both orders decide alike; they differ in where the step is paid. *)
Definition bank_step (uts : bool) (L : Z) (x : bool * Z * Z) (r : step) : bool * Z * Z :=
  let '(s, bank, paid) := x in
  let bank' := Z.max 0 (bank + at_ s r - at_ (negb s) r) in
  if 2 * L <=? bank'
  then (negb s, 0, paid + L + at_ (if uts then negb s else s) r)
  else (s, bank', paid + at_ s r).

Definition bank_cost (uts : bool) (L : Z) (l : list step) : Z :=
  snd (fold_left (bank_step uts L) l (true, 0, 0)).

(* What it has in hand, D = w(present) - w(other): 2 (D + L) up to D = 0, 2 L - D from there on. *)
Definition credit (L D : Z) : Z := if D <=? 0 then 2 * (D + L) else 2 * L - D.

Definition lead (s : bool) (w : Z * Z) : Z := at_ s w - at_ (negb s) w.

(* The bank is the lead plus L, and the credit pays what the optimum does not. *)
Definition invariant (L : Z) (x : bool * Z * Z) (w : Z * Z) : Prop :=
  let '(s, bank, paid) := x in
  bank = lead s w + L /\ 0 <= bank < 2 * L /\
  paid + credit L (lead s w) <= 3 * Z.min (fst w) (snd w).

Lemma bank_invariant_step : forall L x w r, 0 < L -> 0 <= fst r -> 0 <= snd r ->
  invariant L x w -> invariant L (bank_step true L x r) (work L w r).
Proof.
  intros L [[s bank] paid] [x y] [a b] HL Ha Hb. cbn [fst snd] in *.
  unfold invariant, bank_step, work, lead, credit, at_. destruct s; cbn [negb fst snd].
  - intros [E [R P]].
    destruct (Z.leb_spec (2 * L) (Z.max 0 (bank + a - b))); cbn [negb fst snd];
      destruct (Z.leb_spec (x - y) 0);
      match goal with |- context [Z.leb ?u 0] => destruct (Z.leb_spec u 0) end; lia.
  - intros [E [R P]].
    destruct (Z.leb_spec (2 * L) (Z.max 0 (bank + b - a))); cbn [negb fst snd];
      destruct (Z.leb_spec (y - x) 0);
      match goal with |- context [Z.leb ?u 0] => destruct (Z.leb_spec u 0) end; lia.
Qed.

Lemma bank_invariant : forall L l x w, 0 < L -> nonneg l -> invariant L x w ->
  invariant L (fold_left (bank_step true L) l x) (fold_left (work L) l w).
Proof.
  intros L l; induction l as [| r l' IH]; intros x w HL N I; [ exact I |].
  cbn [fold_left]. destruct (N r (or_introl eq_refl)).
  apply IH; [ assumption | intros q Hq; apply N; now right |]. now apply bank_invariant_step.
Qed.

(* update_then_serve: never more than 3 times the optimum, with no constant, for steps of any size. *)
Theorem bank_three_competitive : forall L l, 0 < L -> nonneg l -> bank_cost true L l <= 3 * optimum L l.
Proof.
  intros L l HL N. unfold bank_cost, optimum.
  assert (invariant L (true, 0, 0) (0, L)) as I0.
  { unfold invariant, lead, credit, at_. cbn [negb fst snd]. destruct (Z.leb_spec (0 - L) 0); lia. }
  pose proof (bank_invariant L l _ _ HL N I0) as I.
  destruct (fold_left (bank_step true L) l (true, 0, 0)) as [[s bank] paid].
  destruct (fold_left (work L) l (0, L)) as [x y]. unfold invariant in I. cbn [snd fst] in *.
  destruct I as [E [R P]]. unfold credit in P. destruct (Z.leb_spec (lead s (x, y)) 0); lia.
Qed.

(* The same against every schedule: what competitive means. *)
Theorem bank_against_schedules : forall L l states, 0 < L -> nonneg l -> length states = length l ->
  bank_cost true L l <= 3 * cost_uts L true l states.
Proof.
  intros L l states HL N Len. pose proof (bank_three_competitive L l HL N).
  destruct (optimum_is_below L l states ltac:(lia) Len). lia.
Qed.

(* ---- serve_then_update, pool: a step costs at most U ---- *)

(* moves so far; a move finds the optimum L higher than the one before, and costs at most U more than the credit. *)
Definition invariant_stu (L U : Z) (x : bool * Z * Z) (w : Z * Z) (moves : Z) : Prop :=
  let '(s, bank, paid) := x in
  bank = lead s w + L /\ 0 <= bank < 2 * L /\
  L * (moves + 1) <= at_ (negb s) w /\
  paid + credit L (lead s w) <= 3 * Z.min (fst w) (snd w) + U * moves.

Lemma bank_stu_step : forall L U x w r moves, 0 < L -> 0 <= U -> 0 <= fst r <= U -> 0 <= snd r <= U ->
  invariant_stu L U x w moves ->
  invariant_stu L U (bank_step false L x r) (work L w r) moves \/
  invariant_stu L U (bank_step false L x r) (work L w r) (moves + 1).
Proof.
  intros L U [[s bank] paid] [x y] [a b] moves HL HU Ha Hb. cbn [fst snd] in *.
  unfold invariant_stu, bank_step, work, lead, credit, at_. destruct s; cbn [negb fst snd].
  - intros [E [R [M P]]].
    destruct (Z.leb_spec (2 * L) (Z.max 0 (bank + a - b))); cbn [negb fst snd]; [ right | left ];
      destruct (Z.leb_spec (x - y) 0);
      match goal with |- context [Z.leb ?u 0] => destruct (Z.leb_spec u 0) end; lia.
  - intros [E [R [M P]]].
    destruct (Z.leb_spec (2 * L) (Z.max 0 (bank + b - a))); cbn [negb fst snd]; [ right | left ];
      destruct (Z.leb_spec (y - x) 0);
      match goal with |- context [Z.leb ?u 0] => destruct (Z.leb_spec u 0) end; lia.
Qed.

(* With L = lambda U this is 3 + 1/lambda. *)
Theorem bank_serve_then_update : forall L U l, 0 < L -> 0 <= U ->
  (forall r, In r l -> 0 <= fst r <= U /\ 0 <= snd r <= U) ->
  L * bank_cost false L l <= (3 * L + U) * optimum L l.
Proof.
  intros L U l HL HU N. unfold bank_cost, optimum.
  assert (forall l' x w moves, (forall r, In r l' -> 0 <= fst r <= U /\ 0 <= snd r <= U) ->
    invariant_stu L U x w moves ->
    exists moves', invariant_stu L U (fold_left (bank_step false L) l' x) (fold_left (work L) l' w) moves') as Fold.
  { induction l' as [| r l' IH]; intros x w moves Hr I; [ now exists moves |].
    cbn [fold_left]. destruct (Hr r (or_introl eq_refl)) as [Ha Hb].
    destruct (bank_stu_step L U x w r moves HL HU Ha Hb I) as [J | J]; eapply IH; eauto;
      intros q Hq; apply Hr; now right. }
  assert (invariant_stu L U (true, 0, 0) (0, L) 0) as I0.
  { unfold invariant_stu, lead, credit, at_. cbn [negb fst snd]. destruct (Z.leb_spec (0 - L) 0); lia. }
  destruct (Fold l _ _ _ N I0) as [moves I].
  destruct (fold_left (bank_step false L) l (true, 0, 0)) as [[s bank] paid].
  destruct (fold_left (work L) l (0, L)) as [x y]. unfold invariant_stu in I. cbn [snd fst] in *.
  destruct I as [E [R [M P]]].
  assert (L * moves <= Z.min x y) as Q by (unfold lead, at_ in *; destruct s; cbn [negb fst snd] in *; lia).
  assert (paid <= 3 * Z.min x y + U * moves) as P2
    by (unfold credit in P; destruct (Z.leb_spec (lead s (x, y)) 0); lia).
  apply (Zmult_le_compat_l _ _ U) in Q; [| assumption ].
  apply (Zmult_le_compat_l _ _ L) in P2; [| lia ]. lia.
Qed.

Theorem bank_stu_against_schedules : forall L U l states, 0 < L -> 0 <= U ->
  (forall r, In r l -> 0 <= fst r <= U /\ 0 <= snd r <= U) -> length states = length l ->
  L * bank_cost false L l <= (3 * L + U) * cost_stu L true l states.
Proof.
  intros L U l states HL HU N Len. pose proof (bank_serve_then_update L U l HL HU N) as H.
  destruct (optimum_is_below L l states ltac:(lia) Len) as [_ B].
  apply (Zmult_le_compat_l _ _ (3 * L + U)) in B; lia.
Qed.

(* ---- No deterministic policy has less than 3, update_then_serve ---- *)

(* A policy: from the steps so far, the present one first, to its state. The adversary charges 1 to the state in which
   the policy stands before the step. *)
Definition task (s : bool) : step := if s then (1, 0) else (0, 1).

Fixpoint cruel (pol : list step -> bool) (h : list step) (s : bool) (n : nat) : list step :=
  match n with
  | O => []
  | S n' => task s :: cruel pol (task s :: h) (pol (task s :: h)) n'
  end.

Fixpoint chosen (pol : list step -> bool) (h l : list step) : list bool :=
  match l with [] => [] | r :: l' => pol (r :: h) :: chosen pol (r :: h) l' end.

(* Where the policy stood not, before each step; and how often it moved. *)
Fixpoint elsewhere (s : bool) (states : list bool) : list bool :=
  match states with [] => [] | s' :: r => negb s :: elsewhere s' r end.

Fixpoint moves (s : bool) (states : list bool) : Z :=
  match states with [] => 0 | s' :: r => (if Bool.eqb s s' then 0 else 1) + moves s' r end.

Lemma elsewhere_length : forall states s, length (elsewhere s states) = length states.
Proof. induction states as [| s' r IH]; intros s; [ reflexivity | simpl; now rewrite IH ]. Qed.

Lemma chosen_length : forall pol l h, length (chosen pol h l) = length l.
Proof. induction l as [| r l IH]; intros h; [ reflexivity | simpl; now rewrite IH ]. Qed.

Lemma cruel_facts : forall L pol n h s, 0 < L ->
  let l := cruel pol h s n in
  let states := chosen pol h l in
  length l = n /\ nonneg l /\ 0 <= moves s states <= Z.of_nat n /\
  cost_uts L s l states = Z.of_nat n - moves s states + L * moves s states /\
  cost_uts L true l (repeat true n) + cost_uts L false l (repeat false n) = Z.of_nat n /\
  cost_uts L (negb s) l (elsewhere s states) <= L * moves s states /\
  (forall s0, cost_uts L s0 l (elsewhere s states) <= switch L s0 (negb s) + L * moves s states).
Proof.
  intros L pol n; induction n as [| n IH]; intros h s HL.
  - simpl. split; [ reflexivity |]. split; [ intros r [] |]. do 4 (split; [ lia |]).
    intros s0. unfold switch. destruct (Bool.eqb s0 (negb s)); lia.
  - destruct (IH (task s :: h) (pol (task s :: h)) HL) as [Len [N [M [A [St [E1 E2]]]]]].
    set (s' := pol (task s :: h)) in *. cbn [cruel chosen elsewhere moves repeat cost_uts length].
    fold s'. set (l := cruel pol (task s :: h) s' n) in *. set (states := chosen pol (task s :: h) l) in *.
    assert (Zn : Z.of_nat (S n) = Z.of_nat n + 1) by lia. rewrite Zn.
    specialize (E2 (negb s)).
    assert (X : cost_uts L (negb s) l (elsewhere s' states) <= L * ((if Bool.eqb s s' then 0 else 1) + moves s' states)).
    { eapply Z.le_trans; [ exact E2 |]. unfold switch. destruct s, s'; cbn [Bool.eqb negb]; lia. }
    split; [ now rewrite Len |]. split.
    { intros r [<- | H]; [ destruct s; simpl; lia | now apply N ]. }
    split; [ destruct (Bool.eqb s s'); lia |]. split.
    { rewrite A. unfold switch, at_, task. destruct s, s'; cbn [Bool.eqb fst snd]; lia. }
    split.
    { replace (switch L true true) with 0 by reflexivity. replace (switch L false false) with 0 by reflexivity.
      unfold at_, task. destruct s; cbn [fst snd]; lia. }
    split.
    + unfold switch at 1, at_, task. destruct s; cbn [Bool.eqb negb fst snd] in *; lia.
    + intros s0. unfold at_, task. destruct s; cbn [negb fst snd] in *; lia.
Qed.

(* The three schedules of the proof pay together what the policy pays, plus 1 a move, plus 2 L. *)
Theorem cruel_adversary : forall L pol n, 0 < L ->
  let l := cruel pol [] true n in
  let alg := cost_uts L true l (chosen pol [] l) in
  length l = n /\ nonneg l /\ Z.of_nat n <= alg /\ 3 * L * optimum L l <= (L + 1) * alg + 2 * L * L.
Proof.
  intros L pol n HL l alg. destruct (cruel_facts L pol n [] true HL) as [Len [N [M [A [St [_ E2]]]]]].
  fold l in Len, N, M, A, St, E2. fold alg in A. set (m := moves true (chosen pol [] l)) in *.
  specialize (E2 true). unfold switch in E2. simpl negb in E2. simpl Bool.eqb in E2. cbv iota in E2.
  assert (optimum L l <= cost_uts L true l (repeat true n)) as O1
    by (apply optimum_is_below; [ lia | now rewrite repeat_length ]).
  assert (optimum L l <= L + cost_uts L false l (repeat false n)) as O2.
  { pose proof (triangle L true false l (repeat false n) ltac:(lia)) as T. unfold switch in T. simpl Bool.eqb in T.
    cbv iota in T. eapply Z.le_trans; [| exact T ]. apply optimum_is_below; [ lia | now rewrite repeat_length ]. }
  assert (optimum L l <= cost_uts L true l (elsewhere true (chosen pol [] l))) as O3.
  { apply optimum_is_below; [ lia |]. now rewrite elsewhere_length, chosen_length. }
  assert (0 <= (L - 1) * m) as Pos by (apply Z.mul_nonneg_nonneg; lia).
  assert (3 * optimum L l <= alg + m + 2 * L) as Three by lia.
  assert (L * m <= alg) as Moves by lia.
  split; [ assumption |]. split; [ assumption |]. split; [ lia |].
  apply (Zmult_le_compat_l _ _ L) in Three; lia.
Qed.

(* For p/q < 3 and a price L that is large in units of the steps: no deterministic policy, no constant b. *)
Theorem three_is_best : forall p q b, 0 <= p -> 0 <= b -> p < 3 * q ->
  exists L, 0 < L /\ forall pol, exists l, nonneg l /\
    p * optimum L l + b < q * cost_uts L true l (chosen pol [] l).
Proof.
  intros p q b Hp Hb Hpq. exists (p + 1). split; [ lia |]. intros pol.
  set (L := p + 1). set (n := Z.to_nat (2 * p * L * L + 3 * L * b + 1)).
  assert (0 <= 2 * p * L * L) as Z1 by (unfold L; repeat apply Z.mul_nonneg_nonneg; lia).
  assert (0 <= 3 * L * b) as Z2 by (unfold L; repeat apply Z.mul_nonneg_nonneg; lia).
  assert (0 < L) as HL by (unfold L; lia).
  destruct (cruel_adversary L pol n HL) as [_ [N [Big Three]]].
  set (l := cruel pol [] true n) in *. set (alg := cost_uts L true l (chosen pol [] l)) in *.
  exists l. split; [ assumption |].
  assert (2 * p * L * L + 3 * L * b + 1 <= alg) as Big2 by (unfold n in Big; lia).
  apply (Zmult_le_compat_l _ _ p) in Three; [| assumption ].
  assert (p * (L + 1) + 1 <= 3 * L * q) as G.
  { assert (L * (p + 1) <= L * (3 * q)) as G1 by (apply Zmult_le_compat_l; lia). unfold L in *. lia. }
  assert ((p * (L + 1) + 1) * alg <= 3 * L * q * alg) as G2 by (apply Zmult_le_compat_r; lia).
  apply (Z.mul_lt_mono_pos_l (3 * L)); [ lia |]. lia.
Qed.
